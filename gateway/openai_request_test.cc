// Reading OpenAI's bodies. docs/openai.md has the table of all fields, which test_openai.py walks on a real cluster.
#include "gateway/openai_request.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/json_reading.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int32_t kContextLength = 512;

absl::StatusOr<OpenAiRequest> ReadText(const std::string& members) {
  return ReadOpenAiRequest(OpenAiEndpoint::kCompletions, absl::StrCat("{", members, "}"),
                           {.context_length = kContextLength});
}

absl::StatusOr<OpenAiRequest> ReadChat(const std::string& members) {
  return ReadOpenAiRequest(OpenAiEndpoint::kChat, absl::StrCat("{", members, "}"), {.context_length = kContextLength});
}

constexpr char kMessages[] = R"("messages":[{"role":"user","content":"Hi"}])";

// The field at fault; empty where none is named.
std::string FaultOf(const absl::StatusOr<OpenAiRequest>& read) {
  if (read.ok()) return "none";
  const auto field = router::GetFieldError(read.status());
  return field.has_value() ? field->field : "";
}

TEST(OpenAiRequestTest, AnEmptyCompletionTakesTheDefaults) {
  const auto read = ReadText(R"("prompt":"Once")");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<router::TextPrompt>(read->generation.prompt).text, "Once");
  EXPECT_TRUE(std::get<router::TextPrompt>(read->generation.prompt).add_special_tokens);
  EXPECT_EQ(read->generation.sampling.max_tokens, kCompletionsMaxTokens);
  EXPECT_FALSE(read->generation.sampling.temperature.has_value());
  EXPECT_FALSE(read->generation.sampling.logprobs.has_value());
  EXPECT_FALSE(read->stream);
}

TEST(OpenAiRequestTest, AChatHasTheRoomOfTheContextUnlessItSaysOtherwise) {
  EXPECT_EQ(ReadChat(kMessages)->generation.sampling.max_tokens, kContextLength);
  EXPECT_EQ(ReadChat(absl::StrCat(kMessages, R"(,"max_tokens":5)"))->generation.sampling.max_tokens, 5);
  EXPECT_EQ(
      ReadChat(absl::StrCat(kMessages, R"(,"max_tokens":5,"max_completion_tokens":6)"))->generation.sampling.max_tokens,
      6);
}

TEST(OpenAiRequestTest, APromptIsOneTextOrOneListOfTokens) {
  EXPECT_EQ(std::get<router::TextPrompt>(ReadText(R"("prompt":["a"])")->generation.prompt).text, "a");
  EXPECT_THAT(std::get<router::TokenPrompt>(ReadText(R"("prompt":[1,2])")->generation.prompt).ids, ElementsAre(1, 2));
  EXPECT_THAT(std::get<router::TokenPrompt>(ReadText(R"("prompt":[[7]])")->generation.prompt).ids, ElementsAre(7));
  EXPECT_EQ(FaultOf(ReadText(R"("prompt":[1,"b"])")), "prompt");
  EXPECT_EQ(FaultOf(ReadText(R"("prompt":[4294967296])")), "prompt");
  EXPECT_EQ(FaultOf(ReadText(R"("prompt":{"a":1})")), "prompt");
  EXPECT_EQ(FaultOf(ReadText("")), "prompt");
}

TEST(OpenAiRequestTest, AMessageHasItsTextAtOnceOrInParts) {
  const auto read =
      ReadChat(R"("messages":[{"role":"developer","content":"Be brief"},)"
               R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":null}])");
  ASSERT_TRUE(read.ok()) << read.status();
  const auto& messages = std::get<router::ChatPrompt>(read->generation.prompt).messages;
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].content, "ab");
}

TEST(OpenAiRequestTest, WhatIsWrongIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":1e999)", ""},
      {R"("top_k":1.5)", "top_k"},
      {R"("top_k":3000000000)", "top_k"},
      {R"("seed":-1)", "seed"},
      {R"("max_tokens":true)", "max_tokens"},
      {R"("stop":[1])", "stop"},
      {R"("stop_token_ids":["a"])", "stop_token_ids"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"x":1})", "stream_options.x"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream":true,"stream_options":{"include_obfuscation":true})", "stream_options.include_obfuscation"},
      {R"("stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true})",
       "stream_options.continuous_usage_stats"},
      {R"("model":5)", "model"},
      {R"("n":0)", "n"},
      {R"("request_id":"")", "request_id"},
      {R"("request_id":"a b")", "request_id"},
      {R"("request_id":7)", "request_id"},
      {R"("n":129)", "n"},
      {R"("n":"2")", "n"},
      {R"("logit_bias":[5])", "logit_bias"},
      {R"("logit_bias":{"hello":5})", "logit_bias"},
      {R"("logit_bias":{"07":5})", "logit_bias"},
      {R"("logit_bias":{" 7":5})", "logit_bias"},
      {R"("logit_bias":{"+7":5})", "logit_bias"},
      {R"("logit_bias":{"7.0":5})", "logit_bias"},
      {R"("logit_bias":{"4294967297":5})", "logit_bias"},
      {R"("logit_bias":{"":5})", "logit_bias"},
      {R"("logit_bias":{"7":"5"})", "logit_bias"},
      {R"("logit_bias":{"7":null})", "logit_bias"},
      {R"("logit_bias":{"7":1e39})", "logit_bias"},
      {R"("temprature":1)", "temprature"}};
  for (const auto& [members, field] : cases) {
    SCOPED_TRACE(members);
    EXPECT_EQ(FaultOf(ReadText(absl::StrCat(R"("prompt":"x",)", members))), field);
    EXPECT_EQ(FaultOf(ReadChat(absl::StrCat(kMessages, ",", members))), field);
  }
}

TEST(OpenAiRequestTest, SeveralPromptsAreTextsOrTokens) {
  const auto read = ReadText(R"("prompt":["a",[1,2],"c"],"n":2)");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<router::TextPrompt>(read->generation.prompt).text, "a");
  ASSERT_EQ(read->generation.more_prompts.size(), 2u);
  EXPECT_EQ(std::get<router::TokenPrompt>(read->generation.more_prompts[0]).ids, std::vector<int32_t>({1, 2}));
  EXPECT_EQ(read->generation.total_choices(), 6u);
  EXPECT_EQ(FaultOf(ReadText(R"("prompt":["a",{}])")), "prompt");
  EXPECT_EQ(FaultOf(ReadText(R"("prompt":["a","b"],"n":65)")), "n");
}

TEST(OpenAiRequestTest, WhatIsWrongInAChatIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("messages":5)", "messages"},
      {R"("messages":[5])", "messages[0]"},
      {R"("messages":[{"content":"x"}])", "messages[0].role"},
      {R"("messages":[{"role":"user"}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":"x"}]}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":"x"},{"role":"user","content":"x","name":5}])", "messages[1].name"},
      {R"("messages":[{"role":"user","content":"x","nam":null}])", "messages[0].nam"},
      {R"("messages":[{"role":"user","content":"x","tool_call_id":"a"}])", "messages[0].tool_call_id"},
      {R"("messages":[{"role":"user","content":"x","tool_calls":[{}]}])", "messages[0].tool_calls"},
      {R"("messages":[{"role":"assistant","content":"x","reasoning":"y"}])", "messages[0].reasoning"},
      {absl::StrCat(kMessages, R"(,"top_logprobs":2)"), "top_logprobs"},
      {absl::StrCat(kMessages, R"(,"tools":[{}])"), "tools[0].type"}};
  for (const auto& [members, field] : cases) {
    SCOPED_TRACE(members);
    EXPECT_EQ(FaultOf(ReadChat(members)), field);
  }
}

TEST(OpenAiRequestTest, TheNameOfWhoSpeaksIsForTheChatTemplate) {
  const auto read =
      ReadChat(R"("messages":[{"role":"user","content":"Hi","name":"Ann"},{"role":"user","content":"Ho"}])");
  ASSERT_TRUE(read.ok()) << read.status();
  const auto& messages = std::get<router::ChatPrompt>(read->generation.prompt).messages;
  EXPECT_EQ(messages[0].name, "Ann");
  EXPECT_EQ(messages[1].name, "");
}

TEST(OpenAiRequestTest, AnAnswerOfAnotherServerComesBack) {
  const auto read = ReadChat(
      R"("messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho","refusal":null,"annotations":[],)"
      R"("audio":null,"function_call":null,"tool_calls":[],"reasoning":null,"reasoning_content":null},)"
      R"({"role":"user","content":"And?","tool_calls":[]}])");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<router::ChatPrompt>(read->generation.prompt).messages.size(), 3u);
}

TEST(OpenAiRequestTest, AMessageMaySayThatItIsText) {
  const auto read = ReadChat(R"("messages":[{"role":"user","content":"Hi","type":"text"}])");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<router::ChatPrompt>(read->generation.prompt).messages.at(0).content, "Hi");
  EXPECT_EQ(FaultOf(ReadChat(R"("messages":[{"role":"user","content":"Hi","type":"image"}])")), "messages[0].type");
}

TEST(OpenAiRequestTest, ALogitBiasHasIdsForKeys) {
  for (const std::string base : {R"("prompt":"x",)", R"("messages":[{"role":"user","content":"Hi"}],)"}) {
    const auto read = [&base](const std::string& biases) {
      const std::string members = absl::StrCat(base, R"("logit_bias":)", biases);
      return base.starts_with(R"("prompt)") ? ReadText(members) : ReadChat(members);
    };
    const auto two = read(R"({"50256":-100,"7":2.5})");
    ASSERT_TRUE(two.ok()) << two.status();
    EXPECT_THAT(two->generation.sampling.logit_bias,
                UnorderedElementsAre(TokenBias{.token = 50256, .bias = -100}, TokenBias{.token = 7, .bias = 2.5f}));
    EXPECT_TRUE(read("{}")->generation.sampling.logit_bias.empty());
    EXPECT_TRUE(read("null")->generation.sampling.logit_bias.empty());
  }
}

TEST(OpenAiRequestTest, TheMessageOfAWrongBiasNamesItsToken) {
  EXPECT_THAT(std::string(ReadText(R"("prompt":"x","logit_bias":{"hello":5})").status().message()), HasSubstr("hello"));
  EXPECT_THAT(std::string(ReadText(R"("prompt":"x","logit_bias":{"7":"5"})").status().message()),
              HasSubstr("token 7 "));
}

TEST(OpenAiRequestTest, LogProbabilitiesAreAskedForInTheWordsOfEachEndpoint) {
  EXPECT_EQ(ReadText(R"("prompt":"x","logprobs":3)")->generation.sampling.logprobs, 3);
  EXPECT_EQ(ReadChat(absl::StrCat(kMessages, R"(,"logprobs":true,"top_logprobs":3)"))->generation.sampling.logprobs, 3);
  EXPECT_EQ(ReadChat(absl::StrCat(kMessages, R"(,"logprobs":true)"))->generation.sampling.logprobs, 0);
  EXPECT_FALSE(ReadChat(absl::StrCat(kMessages, R"(,"logprobs":false)"))->generation.sampling.logprobs.has_value());
}

TEST(OpenAiRequestTest, OfPrioritiesTheLowerGoesFirstAndNoneBeforeTheDefault) {
  const auto read = [](int priority) { return ReadText(absl::StrCat(R"("prompt":"x","priority":)", priority)); };
  EXPECT_EQ(ReadText(R"("prompt":"x")")->generation.priority, router::kMaxPriority);
  EXPECT_EQ(read(0)->generation.priority, router::kMaxPriority);
  EXPECT_EQ(read(1)->generation.priority, -1);
  EXPECT_EQ(read(8)->generation.priority, router::kMinPriority);
  EXPECT_EQ(ReadChat(absl::StrCat(kMessages, R"(,"priority":3)"))->generation.priority, -3);
  for (const int priority : {-1, 9}) EXPECT_EQ(FaultOf(read(priority)), "priority") << priority;
  EXPECT_THAT(std::string(read(-1).status().message()), HasSubstr("nobody goes before the default"));
}

TEST(OpenAiRequestTest, UsageInEachChunkIsUsageAtTheEndToo) {
  const auto read = [](const std::string& options) {
    return ReadText(absl::StrCat(R"("prompt":"x","stream":true,"stream_options":{)", options, "}"));
  };
  EXPECT_TRUE(read(R"("continuous_usage_stats":true)")->include_usage);
  EXPECT_TRUE(read(R"("continuous_usage_stats":true)")->continuous_usage);
  EXPECT_FALSE(read(R"("continuous_usage_stats":false)")->include_usage);
  EXPECT_FALSE(read(R"("include_usage":true,"continuous_usage_stats":null)")->continuous_usage);
  EXPECT_FALSE(read(R"("include_obfuscation":false)")->include_usage);
}

TEST(OpenAiRequestTest, NullStandsForAFieldThatIsLeftOut) {
  const auto read = ReadText(R"("prompt":"x","max_tokens":null,"n":null,"stop":null,"stream":null,"suffix":null)");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->generation.sampling.max_tokens, kCompletionsMaxTokens);
}

TEST(JsonBoundsTest, DepthAndValuesAreBounded) {
  const auto nested = [](size_t depth) {
    return absl::StrCat(R"({"a":)", std::string(depth - 1, '['), std::string(depth - 1, ']'), "}");
  };
  EXPECT_TRUE(ParseJsonObject(nested(kMaxJsonDepth)).ok());
  EXPECT_THAT(std::string(ParseJsonObject(nested(kMaxJsonDepth + 1)).status().message()), HasSubstr("deeper"));
  const auto with_values = [](size_t count) {
    std::string text = R"({"a":[1)";
    for (size_t i = 3; i < count; ++i) text += ",1";
    return text + "]}";
  };
  EXPECT_TRUE(ParseJsonObject(with_values(kMaxJsonValues)).ok());
  EXPECT_THAT(std::string(ParseJsonObject(with_values(kMaxJsonValues + 1)).status().message()), HasSubstr("values"));
  // Brackets within a string count for nothing.
  EXPECT_TRUE(ParseJsonObject(absl::StrCat(R"({"a":"\")", std::string(100, '['), R"("})")).ok());
}

}  // namespace
}  // namespace baton::gateway
