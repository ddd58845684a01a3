// A chat in a file.
#include "cli/chat_history.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;

TEST(ChatHistory, WhatIsWrittenIsReadAgain) {
  const ChatHistory history = {.system = "Be \"brief\".",
                               .turns = {{"One?\nTwo?", "caf\u00E9", AnswerEnd::kWhole},
                                         {"Go on.", "It was", AnswerEnd::kStopped},
                                         {"And?", "", AnswerEnd::kBroken}},
                               .unanswered = "Still there?"};
  const auto read = ReadChat(WriteChat(history));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->system, history.system);
  EXPECT_EQ(read->unanswered, history.unanswered);
  ASSERT_EQ(read->turns.size(), history.turns.size());
  for (size_t i = 0; i < history.turns.size(); ++i) {
    EXPECT_EQ(read->turns[i].question, history.turns[i].question);
    EXPECT_EQ(read->turns[i].answer, history.turns[i].answer);
    EXPECT_EQ(read->turns[i].end, history.turns[i].end);
  }
}

TEST(ChatHistory, AnEmptyChatIsAnEmptyList) {
  EXPECT_EQ(WriteChat({}), "[]\n");
  EXPECT_TRUE(ReadChat("[]")->turns.empty());
}

TEST(ChatHistory, AListThatIsNoChatIsRefusedInOneLine) {
  const auto error = [](const std::string& text) {
    const auto read = ReadChat(text);
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << text;
    EXPECT_EQ(read.status().message().find('\n'), std::string::npos);
    return std::string(read.status().message());
  };
  const std::string user = R"({"role": "user", "content": "a"})";
  const std::string assistant = R"({"role": "assistant", "content": "b"})";
  const std::string system = R"({"role": "system", "content": "c"})";
  const auto list = [](const std::string& a, const std::string& b) { return "[" + a + ", " + b + "]"; };
  EXPECT_THAT(error(""), HasSubstr("JSON list"));
  EXPECT_THAT(error("{}"), HasSubstr("JSON list"));
  EXPECT_THAT(error("[1]"), HasSubstr("message 0: expected"));
  EXPECT_THAT(error(R"([{"role": "user", "content": 1}])"), HasSubstr("message 0: expected"));
  EXPECT_THAT(error(list(user, user)), HasSubstr("message 1: a message of role \"user\" may not come there"));
  EXPECT_THAT(error(list(user, system)), HasSubstr("message 1"));
  EXPECT_THAT(error(list(system, assistant)), HasSubstr("message 1"));
  EXPECT_THAT(error(list(system, system)), HasSubstr("message 1"));
  EXPECT_THAT(error(R"([{"role": "tool", "content": "x"}])"), HasSubstr("role \"tool\""));
  EXPECT_THAT(error(R"([{"role": "user", "content": ""}])"), HasSubstr("message 0"));
}

}  // namespace
}  // namespace baton::cli
