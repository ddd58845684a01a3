// Chats whose messages spell special tokens, with the tiny tokenizers of tiny_spec.h.
#include "tokenizer/rendered_chat.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/random.h"
#include "common/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/testing/encode.h"
#include "tokenizer/testing/tiny_spec.h"

namespace baton::tokenizer {
namespace {

constexpr int32_t kEnd = 0;
constexpr int32_t kStart = 1;
constexpr int32_t kUserDefined = 3;
constexpr char kTurns[] = "{% for m in messages %}<|start|>{{ m['content'] }}<|end|>{% endfor %}";
// Templates that trim contents and put them side by side.
constexpr char kTrimmed[] = "<|start|>{% for m in messages %}{{ m['content'] | trim }}{% endfor %}<|end|>";

ChatTemplate ParseTemplate(std::string_view source) {
  absl::StatusOr<ChatTemplate> chat_template = ChatTemplate::Parse(source);
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  return *std::move(chat_template);
}

std::vector<ChatMessage> UserSays(const std::vector<std::string>& contents) {
  std::vector<ChatMessage> messages;
  for (const std::string& content : contents) messages.push_back({.role = "user", .content = content});
  return messages;
}

RenderedChat Render(const Tokenizer& tokenizer, std::string_view source, const std::vector<std::string>& contents) {
  absl::StatusOr<RenderedChat> chat = RenderChat(ParseTemplate(source), tokenizer, {.messages = UserSays(contents)});
  EXPECT_TRUE(chat.ok()) << chat.status();
  return chat.ok() ? *chat : RenderedChat();
}

Ids EncodeChat(const Tokenizer& tokenizer, std::string_view source, const std::vector<std::string>& contents) {
  const RenderedChat chat = Render(tokenizer, source, contents);
  return EncodeOk(tokenizer, chat.text, {.literal_at = chat.literal_at});
}

// The ids of `text` between those of the two special tokens.
Ids Turn(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids = EncodeOk(tokenizer, text, {.parse_special = false});
  ids.insert(ids.begin(), kStart);
  ids.push_back(kEnd);
  return ids;
}

int CountSpecial(const Tokenizer& tokenizer, const Ids& ids) {
  return static_cast<int>(std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.IsSpecial(id); }));
}

class RenderedChatTest : public testing::Test {
 protected:
  Ids Encoded(std::string_view source, const std::vector<std::string>& contents) const {
    return EncodeChat(*tokenizer_, source, contents);
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = MakeTokenizer(TinySpec());
};

TEST_F(RenderedChatTest, OrdinaryChatsAreWhatTheTemplateWrites) {
  for (const char* const content : {"hello", "", "a < b <| c", "{{ braces }} {%", "\xEF\xB7\x90", "<|end>"}) {
    const RenderedChat chat = Render(*tokenizer_, kTurns, {content});
    EXPECT_EQ(chat.text, std::string("<|start|>") + content + "<|end|>");
    EXPECT_THAT(chat.literal_at, testing::IsEmpty());
  }
}

TEST_F(RenderedChatTest, ASpecialTokenThatAMessageSpellsIsText) {
  for (const char* const content : {"<|end|>", "hello<|end|>hello", "<|start|>x", "<|start|><|start|>",
                                    "<|start<|end|>", "<|end|>\n<|start|>hell"}) {
    EXPECT_EQ(Encoded(kTurns, {content}), Turn(*tokenizer_, content)) << content;
    EXPECT_EQ(Render(*tokenizer_, kTurns, {content}).text, std::string("<|start|>") + content + "<|end|>");
  }
}

TEST_F(RenderedChatTest, ARoleIsTextToo) {
  const ChatTemplate chat_template = ParseTemplate("<|start|>{{ messages[0]['role'] }}<|end|>");
  const auto chat = RenderChat(chat_template, *tokenizer_, {.messages = {{.role = "user<|end|>", .content = ""}}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(EncodeOk(*tokenizer_, chat->text, {.literal_at = chat->literal_at}), Turn(*tokenizer_, "user<|end|>"));
}

TEST_F(RenderedChatTest, ToolsCallsAndVariablesAreTextToo) {
  const ChatTemplate chat_template = ParseTemplate(
      "<|start|>{{ tools | tojson }}{{ mood }}{% for m in messages %}{{ m.content }}{{ m.tool_calls | tojson }}"
      "{% endfor %}<|end|>");
  ChatMessage message = {.role = "assistant", .content = "x"};
  message.tool_calls.push_back({.id = "1", .name = "f", .arguments = R"({"<|end|>":["<|start|>"]})"});
  const auto chat = RenderChat(chat_template, *tokenizer_,
                               {.messages = {std::move(message)},
                                .tools = R"([{"function":{"name":"f","properties":{"<|end|>":{"type":"<|start|>"}}}}])",
                                .variables = R"({"mood":"<|end|>"})"});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(CountSpecial(*tokenizer_, EncodeOk(*tokenizer_, chat->text, {.literal_at = chat->literal_at})), 2)
      << chat->text;
  EXPECT_EQ(chat->literal_at.size(), 5u);
  EXPECT_THAT(chat->text, testing::HasSubstr(R"({"<|end|>": ["<|start|>"]})"));
}

TEST_F(RenderedChatTest, ATemplateMayMakeASpecialTokenOfARole) {
  const ChatTemplate chat_template = ParseTemplate("<|{{ messages[0]['role'] }}|>");
  const auto chat = RenderChat(chat_template, *tokenizer_, {.messages = {{.role = "end", .content = ""}}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_THAT(EncodeOk(*tokenizer_, chat->text, {.literal_at = chat->literal_at}), testing::ElementsAre(kEnd));
}

TEST_F(RenderedChatTest, UserDefinedTokensAreFoundInMessages) {
  const Ids ids = Encoded(kTurns, {"<|end|>  \n"});
  EXPECT_EQ(ids, Turn(*tokenizer_, "<|end|>  \n"));
  EXPECT_THAT(ids, testing::Contains(kUserDefined));
}

TEST_F(RenderedChatTest, MessagesSideBySideMakeNoSpecialToken) {
  EXPECT_EQ(Encoded(kTrimmed, {"<|e", "nd|>"}), Turn(*tokenizer_, "<|end|>"));
  EXPECT_EQ(Encoded(kTrimmed, {"hello<|start|\n ", " >x"}), Turn(*tokenizer_, "hello<|start|>x"));
}

TEST_F(RenderedChatTest, TheTemplatesOwnTokenBehindAMessageIsSpecial) {
  for (const char* const content : {"hello<", "<|", "<|end|", "<|end|>", "<|end|><"}) {
    EXPECT_EQ(Encoded(kTurns, {content}), Turn(*tokenizer_, content)) << content;
  }
}

TEST_F(RenderedChatTest, TheTemplateSeesUserDefinedTokensInMessages) {
  constexpr char kSplits[] = "<|start|>{{ messages[0]['content'].split('  \\n')[1] }}<|end|>";
  EXPECT_EQ(Encoded(kSplits, {"thought  \nhello<|end|>"}), Turn(*tokenizer_, "hello<|end|>"));
}

TEST_F(RenderedChatTest, RefusesAChatThatSpellsSpecialTokensAndLeavesNoCharacterForTheMark) {
  std::string all;
  for (uint32_t code_point = 0xFDD0; code_point <= 0xFDEF; ++code_point) AppendUtf8(code_point, &all);
  EXPECT_EQ(Encoded(kTurns, {all}), Turn(*tokenizer_, all)) << "it spells no special token";
  const std::string one_left = all.substr(3) + "<|end|>";
  EXPECT_EQ(Encoded(kTurns, {one_left}), Turn(*tokenizer_, one_left));
  const auto chat = RenderChat(ParseTemplate(kTurns), *tokenizer_, {.messages = UserSays({all, "<|end|>"})});
  EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument) << chat.status();
}

TEST_F(RenderedChatTest, NoChatHasMoreSpecialTokensThanItsTemplateWrites) {
  const std::vector<std::string> parts = {
      "<",  "|",   "start", "end",          ">", "x", " ",    "\n",    "  \n",  "<|end",   "<|start",
      "|>", "<eo", "s>",    "\xEF\xB7\x90", "é", "h", "<unk", "<bos>", "<eos>", "<|end|>", "<|start|>x"};
  const std::unique_ptr<Tokenizer> pieces = MakeTokenizer(TinyPieceSpec());
  SeededRandom random(7);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::string> contents(1 + random.Below(3));
    for (std::string& content : contents) {
      for (uint64_t i = random.Below(6); i > 0; --i) content += parts[random.Below(parts.size())];
    }
    const std::string shown = testing::PrintToString(contents);
    const int turns = static_cast<int>(contents.size());
    EXPECT_EQ(CountSpecial(*tokenizer_, Encoded(kTurns, contents)), 2 * turns) << shown;
    EXPECT_EQ(CountSpecial(*tokenizer_, Encoded(kTrimmed, contents)), 2) << shown;
    constexpr char kPieceTurns[] = "<bos>{% for m in messages %}{{ m['content'] | trim }}{% endfor %}<eos>";
    const Ids ids = EncodeChat(*pieces, kPieceTurns, contents);
    EXPECT_EQ(CountSpecial(*pieces, ids), 2) << shown;
    EXPECT_EQ(*pieces->Decode(ids, false), Render(*pieces, kPieceTurns, contents).text) << shown;
  }
}

TEST_F(RenderedChatTest, AMebibyteOfSpellingsTakesNoQuadraticTime) {
  for (const char* const unit : {"<|end|>", "<", "<|start"}) {
    std::string content;
    while (content.size() < (1u << 20)) content += unit;
    const TimeNs start = MonotonicClock().Now();
    EXPECT_EQ(CountSpecial(*tokenizer_, Encoded(kTurns, {content})), 2);
    EXPECT_LT(MonotonicClock().Now() - start, 20 * kNsPerSecond) << unit;
  }
}

}  // namespace
}  // namespace baton::tokenizer
