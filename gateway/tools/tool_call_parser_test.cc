#include "gateway/tools/tool_call_parser.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gateway/json_reading.h"
#include "gateway/testing/answer_pieces.h"
#include "gateway/tools/json_scanner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

AnswerPiece Text(const std::string& text) { return {.kind = AnswerPiece::Kind::kText, .text = text}; }
AnswerPiece Call(const std::string& name, int call = 0) {
  return {.kind = AnswerPiece::Kind::kCall, .text = name, .call = call};
}
AnswerPiece Arguments(const std::string& text, int call = 0) {
  return {.kind = AnswerPiece::Kind::kArguments, .text = text, .call = call};
}

ToolReading ReadingOf(CallForm form, bool takes_several = true) {
  return {.form = form, .names = {"weather", "time"}, .takes_several = takes_several};
}

AnswerPieces InChunks(const ToolReading& reading, bool is_stream, const std::vector<std::string_view>& chunks) {
  ToolCallParser parser(reading, is_stream);
  AnswerPieces pieces;
  for (const std::string_view chunk : chunks) AppendJoined(parser.Add(chunk), pieces);
  AppendJoined(parser.End(), pieces);
  return pieces;
}

AnswerPieces Parse(const ToolReading& reading, std::string_view text, bool is_stream = false) {
  const AnswerPieces whole = InChunks(reading, is_stream, {text});
  std::vector<std::string_view> bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    bytes.push_back(text.substr(at, 1));
    EXPECT_EQ(InChunks(reading, is_stream, {text.substr(0, at), text.substr(at)}), whole) << text << " cut at " << at;
  }
  EXPECT_EQ(InChunks(reading, is_stream, bytes), whole) << text;
  return whole;
}

// Whole and stream alike.
AnswerPieces Parse(CallForm form, std::string_view text) {
  const AnswerPieces whole = Parse(ReadingOf(form), text);
  EXPECT_EQ(Parse(ReadingOf(form), text, /*is_stream=*/true), whole) << text;
  return whole;
}

constexpr char kCall[] = R"({"name": "weather", "arguments": {"city": "Paris"}})";

TEST(ToolCallParserTest, AnAnswerWithoutCallsIsText) {
  for (const char* const text : {"", "Hello, world!\n", " a < b <tool> <tool_cal", "<tool_call", "\n\n",
                                 "{\"name\": 1}", "</tool_call>", "été <tool_ call>"}) {
    const AnswerPieces pieces = Parse(CallForm::kTags, text);
    if (*text == '\0') {
      EXPECT_THAT(pieces, IsEmpty());
    } else {
      EXPECT_THAT(pieces, ElementsAre(Text(text)));
    }
  }
}

TEST(ToolCallParserTest, ACallInTagsIsOneAndTheTextAroundItStays) {
  EXPECT_THAT(Parse(CallForm::kTags, absl::StrCat("<tool_call>\n", kCall, "\n</tool_call>")),
              ElementsAre(Call("weather"), Arguments(R"({"city": "Paris"})")));
  EXPECT_THAT(Parse(CallForm::kTags, absl::StrCat("I look.\n\n<tool_call>", kCall, "</tool_call>\n And then?\n")),
              ElementsAre(Text("I look."), Call("weather"), Arguments(R"({"city": "Paris"})"), Text("And then?\n")));
}

TEST(ToolCallParserTest, SeveralCallsComeBehindEachOtherOrInAList) {
  const auto both = ElementsAre(Call("weather"), Arguments(R"({"city":"Rome"})"), Call("time", 1), Arguments("{}", 1));
  EXPECT_THAT(Parse(CallForm::kTags, R"(<tool_call>{"name":"weather","arguments":{"city":"Rome"}}</tool_call>)"
                                     "\n"
                                     R"(<tool_call>{"name":"time","arguments":{}}</tool_call>)"),
              both);
  EXPECT_THAT(Parse(CallForm::kTags, R"(<tool_call>[{"name":"weather","arguments":{"city":"Rome"}}, {"name":"time"}])"
                                     "</tool_call>"),
              both);
  EXPECT_THAT(Parse(CallForm::kBare, R"({"name":"weather","parameters":{"city":"Rome"}}; {"name":"time"})"), both);
  EXPECT_THAT(Parse(CallForm::kBare, R"([{"name":"weather","arguments":{"city":"Rome"}},{"name":"time"}])"), both);
}

TEST(ToolCallParserTest, TheClosingTagMayBeMissing) {
  EXPECT_THAT(Parse(CallForm::kTags, absl::StrCat("<tool_call>", kCall)),
              ElementsAre(Call("weather"), Arguments(R"({"city": "Paris"})")));
  EXPECT_THAT(Parse(CallForm::kTags, absl::StrCat("<tool_call>", kCall, "</tool")),
              ElementsAre(Call("weather"), Arguments(R"({"city": "Paris"})")));
  EXPECT_THAT(Parse(CallForm::kTags, absl::StrCat("<tool_call>", kCall, "\n<tool_call>", R"({"name":"time"})")),
              ElementsAre(Call("weather"), Arguments(R"({"city": "Paris"})"), Call("time", 1), Arguments("{}", 1)));
}

TEST(ToolCallParserTest, ArgumentsMayHaveAnythingThatJsonHas) {
  const std::string arguments =
      R"({"a": [1, -0.5e+3, true, false, null, {"b": "}\"\\é</tool_call>"}], "c": {}, "d": []})";
  EXPECT_THAT(
      Parse(CallForm::kTags, absl::StrCat(R"(<tool_call>{"name": "time", "arguments": )", arguments, "}</tool_call>")),
      ElementsAre(Call("time"), Arguments(arguments)));
}

TEST(ToolCallParserTest, TheMembersOfACallComeInAnyOrder) {
  EXPECT_THAT(
      Parse(CallForm::kTags, R"(<tool_call>{"id":"1","arguments":{"city":"Oslo"},"type":"function","name":"weather"})"),
      ElementsAre(Call("weather"), Arguments(R"({"city":"Oslo"})")));
}

TEST(ToolCallParserTest, WhatIsNoCallOfAToolThatThereIsStaysText) {
  for (const char* const text :
       {"<tool_call></tool_call>", "<tool_call>[]</tool_call>", R"(<tool_call>{}</tool_call>)",
        R"(<tool_call>{"name": "other", "arguments": {}}</tool_call>)", R"(<tool_call>{"name": 5}</tool_call>)",
        R"(<tool_call>{"name": "time", "x": {}}</tool_call>)", R"(<tool_call>{"arguments": {}}</tool_call>)",
        R"(<tool_call>{"name": "time", "arguments": "{}"}</tool_call>)", "<tool_call>time()</tool_call>",
        R"(<tool_call>{"name": "time", "name": "time"}</tool_call>)", "<tool_call>[[",
        R"(<tool_call>{"name": "ti\u006de"}</tool_call>)", R"(<tool_call>{"name": "time", "argu)", "<tool_call>{",
        " \n<tool_call> {\"name\": \"wea"}) {
    EXPECT_THAT(Parse(CallForm::kTags, text), ElementsAre(Text(text))) << text;
  }
  for (const char* const text : {R"({"city": "Paris"})", "[1, 2]", R"({"name": "other"})", "  {", "{\"name\""}) {
    EXPECT_THAT(Parse(CallForm::kBare, text), ElementsAre(Text(text))) << text;
  }
}

TEST(ToolCallParserTest, ABrokenTagDoesNotHideTheCallBehindIt) {
  EXPECT_THAT(Parse(CallForm::kTags, absl::StrCat("<tool_<tool_call>", kCall)),
              ElementsAre(Text("<tool_"), Call("weather"), Arguments(R"({"city": "Paris"})")));
  EXPECT_THAT(Parse(CallForm::kTags, absl::StrCat("<tool_call><tool_call>", kCall)),
              ElementsAre(Text("<tool_call>"), Call("weather"), Arguments(R"({"city": "Paris"})")));
}

TEST(ToolCallParserTest, ABrokenCallIsTextWhereItHasNotBeenSent) {
  const std::string broken = R"(<tool_call>{"name": "time", "arguments": {"a": nul1}}</tool_call>)";
  EXPECT_THAT(Parse(ReadingOf(CallForm::kTags), broken), ElementsAre(Text(broken)));
  EXPECT_THAT(Parse(ReadingOf(CallForm::kTags), broken, /*is_stream=*/true),
              ElementsAre(Call("time"), Arguments(R"({"a": nul)"), Text("1}}</tool_call>")));
}

TEST(ToolCallParserTest, AStreamHasTheNameFirstAndArgumentsAsTheyAreWritten) {
  ToolCallParser parser(ReadingOf(CallForm::kTags), /*is_stream=*/true);
  EXPECT_THAT(parser.Add(R"(<tool_call>{"name": "weather)"), IsEmpty());
  EXPECT_THAT(parser.Add(R"(", "arguments": {"ci)"), ElementsAre(Call("weather"), Arguments(R"({"ci)")));
  EXPECT_EQ(parser.calls(), 1);
  EXPECT_THAT(parser.Add(R"(ty": "Par)"), ElementsAre(Arguments(R"(ty": "Par)")));
  EXPECT_THAT(parser.Add(R"(is"}}</tool_call>)"), ElementsAre(Arguments(R"(is"})")));
  EXPECT_THAT(parser.End(), IsEmpty());
}

TEST(ToolCallParserTest, AnAnswerThatIsACallNeedsNoTagAndIsSentAsItComes) {
  for (const bool is_stream : {false, true}) {
    const ToolReading reading = ReadingOf(CallForm::kOneCall);
    EXPECT_THAT(Parse(reading, kCall, is_stream), ElementsAre(Call("weather"), Arguments(R"({"city": "Paris"})")));
    // Cut by its length.
    EXPECT_THAT(Parse(reading, R"({"name": "weather", "arguments": {"city": "Pa)", is_stream),
                ElementsAre(Call("weather"), Arguments(R"({"city": "Pa)")));
    EXPECT_THAT(Parse(reading, R"({"name": "weat)", is_stream), ElementsAre(Text(R"({"name": "weat)")));
  }
}

TEST(ToolCallParserTest, WithOneCallAtMostTheOthersAreLeftOut) {
  const std::string text = absl::StrCat("<tool_call>[", kCall, ",", kCall, "]</tool_call> Done <tool_call>", kCall);
  for (const bool is_stream : {false, true}) {
    EXPECT_THAT(Parse(ReadingOf(CallForm::kTags, /*takes_several=*/false), text, is_stream),
                ElementsAre(Call("weather"), Arguments(R"({"city": "Paris"})"), Text("Done")));
  }
}

TEST(ToolCallParserTest, WithoutToolsNothingIsLookedFor) {
  const std::string text = absl::StrCat("<tool_call>", kCall, "</tool_call>\n");
  EXPECT_THAT(Parse(ReadingOf(CallForm::kNone), text), ElementsAre(Text(text)));
}

TEST(ToolCallParserTest, CallsAndHeldTextAreBounded) {
  std::string many;
  for (int i = 0; i < kMaxToolCalls; ++i) many += R"(<tool_call>{"name":"time"}</tool_call>)";
  for (const char* const more : {"", R"(<tool_call>{"name":"time"}</tool_call>)"}) {
    ToolCallParser parser(ReadingOf(CallForm::kTags), /*is_stream=*/false);
    const AnswerPieces pieces = parser.Add(many + more);
    EXPECT_EQ(parser.calls(), kMaxToolCalls);
    EXPECT_EQ(pieces.back().kind, *more == '\0' ? AnswerPiece::Kind::kArguments : AnswerPiece::Kind::kText);
  }
  const std::string begin = R"(<tool_call>{"name":"time","arguments":{"a":")";
  for (const size_t more : {0, 1}) {
    const std::string text =
        absl::StrCat(begin, std::string(kMaxHeldToolCallBytes - begin.size() - 3 + more, 'x'), "\"}}");
    ToolCallParser parser(ReadingOf(CallForm::kTags), /*is_stream=*/false);
    parser.Add(text);
    EXPECT_EQ(parser.calls(), more == 0 ? 1 : 0);
    ToolCallParser streaming(ReadingOf(CallForm::kTags), /*is_stream=*/true);
    streaming.Add(text);
    EXPECT_EQ(streaming.calls(), 1) << "nothing is held";
  }
}

// Whether the scanner takes all of the text as one value, and its end is the end of the text.
bool IsOneValue(std::string_view text) {
  JsonScanner scanner;
  for (size_t at = 0; at < text.size(); ++at) {
    const JsonScanner::Result result = scanner.Take(text[at]);
    if (result != JsonScanner::Result::kMore) return result == JsonScanner::Result::kDone && at + 1 == text.size();
  }
  return false;
}

TEST(JsonScannerTest, TakesWhatAParserOfJsonTakes) {
  for (const char* const item : {"",
                                 "0",
                                 "-0",
                                 "01",
                                 "1.",
                                 "1.5",
                                 ".5",
                                 "-",
                                 "-x",
                                 "1e",
                                 "1e5",
                                 "1E+5",
                                 "1e-",
                                 "1.5e-07",
                                 "1e308",
                                 "-1e308",
                                 "1e309",
                                 "-1e309",
                                 "1e-999",
                                 "0e999",
                                 "123456789012345678901234567890",
                                 "1.5.5",
                                 "00",
                                 "true",
                                 "tru",
                                 "nulls",
                                 "false",
                                 "\"\"",
                                 "\"\\u12aF\"",
                                 "\"\\u12g0\"",
                                 "\"\\x\"",
                                 "\"\\uD83D\\uDE00\"",
                                 "\"\\uD83D\"",
                                 "\"\\uDE00\"",
                                 "\"\\uD83D\\uD83D\\uDE00\"",
                                 "\"\\uD83D\\u0041\"",
                                 "\"\\uD83D\\n\\uDE00\"",
                                 "\"\\uD83Dx\\uDE00\"",
                                 "\"\\uD83D\\uDE00\\uD83D\"",
                                 "{\"\\uD83D\":1}",
                                 "\"\t\"",
                                 "[]",
                                 "[",
                                 "]",
                                 "[1,]",
                                 "[,1]",
                                 "{}",
                                 "{1:2}",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{\"a\":1,}",
                                 "{\"a\":1 , \"b\" : [ ] }",
                                 "{\"a\":1 \"b\":2}",
                                 "[1 2]",
                                 "}",
                                 "[{]}",
                                 "+1",
                                 "1 ",
                                 " 1",
                                 "'a'",
                                 "1,2",
                                 "1, 2,true"}) {
    const std::string text = absl::StrCat("[", item, "]");
    EXPECT_EQ(IsOneValue(text), nlohmann::json::accept(text)) << text;
  }
  EXPECT_FALSE(IsOneValue("1"));
  EXPECT_TRUE(IsOneValue("\"a\""));
}

TEST(JsonScannerTest, NestingIsBounded) {
  EXPECT_TRUE(IsOneValue(std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']')));
  EXPECT_FALSE(IsOneValue(std::string(kMaxJsonDepth + 1, '[') + std::string(kMaxJsonDepth + 1, ']')));
}

}  // namespace
}  // namespace baton::gateway
