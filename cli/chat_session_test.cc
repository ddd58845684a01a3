// The core of `baton chat`: what a request says, and what becomes of answers and failures.
#include "cli/chat_session.h"

#include <string>
#include <vector>

#include "common/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Said(const v1::ChatPrompt& chat) {
  std::vector<std::string> said;
  for (const v1::ChatMessage& message : chat.messages()) said.push_back(message.role() + ": " + message.content());
  return said;
}

// A question that is answered as it ought to be.
void Talk(ChatSession& session, const std::string& question, const std::string& answer) {
  ASSERT_TRUE(session.Ask(question).ok());
  session.OnAnswer(answer, AnswerEnd::kWhole);
}

// Room for so many messages.
ChatSession::Fits FitsMessages(int most, int* calls = nullptr) {
  return [most, calls](const v1::ChatPrompt& chat) -> absl::StatusOr<bool> {
    if (calls != nullptr) ++*calls;
    return chat.messages_size() <= most;
  };
}

class ChatSessionTest : public ::testing::Test {
 protected:
  static v1::GenerateRequest Base() {
    v1::GenerateRequest base;
    base.set_model("m");
    base.mutable_sampling()->set_max_tokens(7);
    base.add_stop("END");
    return base;
  }

  ChatSession session_{Base()};
};

TEST_F(ChatSessionTest, ARequestHasTheWholeChatAndTheSettings) {
  ASSERT_TRUE(session_.SetSystem("Be brief.").ok());
  Talk(session_, "One?", "1");
  ASSERT_TRUE(session_.Ask("Two?").ok());
  const v1::GenerateRequest request = session_.Request();
  EXPECT_THAT(Said(request.chat()), ElementsAre("system: Be brief.", "user: One?", "assistant: 1", "user: Two?"));
  EXPECT_EQ(request.model(), "m");
  EXPECT_EQ(request.sampling().max_tokens(), 7);
  EXPECT_THAT(request.stop(), ElementsAre("END"));
}

TEST_F(ChatSessionTest, WhatNoRequestMayHaveIsNotAsked) {
  EXPECT_THAT(session_.Ask("").message(), HasSubstr("nothing to ask"));
  EXPECT_THAT(session_.Ask("caf\xe9").message(), HasSubstr("UTF-8 at byte 3"));
  EXPECT_THAT(session_.Ask(std::string(kMaxPromptBytes + 1, 'x')).message(), HasSubstr("1048577 bytes"));
  EXPECT_THAT(session_.SetSystem("caf\xe9").message(), HasSubstr("UTF-8 at byte 3"));
  Talk(session_, "One?", "1");
  EXPECT_EQ(session_.history().turns.size(), 1);
}

TEST_F(ChatSessionTest, AStoppedAnswerStaysAsFarAsItCameAndIsMarked) {
  ASSERT_TRUE(session_.Ask("Tell me a story.").ok());
  session_.OnAnswer("Once upon", AnswerEnd::kStopped);
  EXPECT_THAT(ShowChat(session_), HasSubstr("assistant: Once upon (stopped)\n"));
  ASSERT_TRUE(session_.Ask("Go on.").ok());
  EXPECT_THAT(Said(session_.Request().chat()),
              ElementsAre("user: Tell me a story.", "assistant: Once upon", "user: Go on."));
}

TEST_F(ChatSessionTest, AFailureCostsItsQuestionAlone) {
  Talk(session_, "One?", "1");
  ASSERT_TRUE(session_.Ask("Two?").ok());
  session_.OnFailure();
  ASSERT_TRUE(session_.Ask("Three?").ok());
  EXPECT_THAT(Said(session_.Request().chat()), ElementsAre("user: One?", "assistant: 1", "user: Three?"));
  session_.OnAnswer("3", AnswerEnd::kWhole);
  EXPECT_EQ(session_.history().unanswered, "");
}

TEST_F(ChatSessionTest, ARetryAsksTheQuestionThatFailed) {
  Talk(session_, "One?", "1");
  ASSERT_TRUE(session_.Ask("Two?").ok());
  session_.OnFailure();
  EXPECT_THAT(ShowChat(session_), HasSubstr("user (not answered): Two?"));
  ASSERT_TRUE(session_.Retry().ok());
  EXPECT_THAT(Said(session_.Request().chat()), ElementsAre("user: One?", "assistant: 1", "user: Two?"));
  session_.OnFailure();
  ASSERT_TRUE(session_.Retry().ok());
  session_.OnAnswer("2", AnswerEnd::kWhole);
  ASSERT_EQ(session_.history().turns.size(), 2);
  EXPECT_EQ(session_.history().turns[1].answer, "2");
  EXPECT_EQ(session_.history().unanswered, "");
}

TEST_F(ChatSessionTest, ARetryReplacesTheLastAnswerOnceThereIsAnother) {
  EXPECT_TRUE(absl::IsFailedPrecondition(session_.Retry()));
  Talk(session_, "One?", "1");
  Talk(session_, "Two?", "two");
  ASSERT_TRUE(session_.Retry().ok());
  EXPECT_THAT(Said(session_.Request().chat()), ElementsAre("user: One?", "assistant: 1", "user: Two?"));
  session_.OnFailure();
  EXPECT_EQ(session_.history().turns.size(), 2) << "the old answer is still there";
  EXPECT_EQ(session_.history().unanswered, "");
  ASSERT_TRUE(session_.Retry().ok());
  session_.OnAnswer("2", AnswerEnd::kWhole);
  ASSERT_EQ(session_.history().turns.size(), 2);
  EXPECT_EQ(session_.history().turns[1].answer, "2");
}

TEST_F(ChatSessionTest, UndoTakesBackTheQuestionThatFailedAndThenTurns) {
  Talk(session_, "One?", "1");
  ASSERT_TRUE(session_.Ask("Two?").ok());
  session_.OnFailure();
  EXPECT_EQ(*session_.Undo(), "Two?");
  EXPECT_EQ(*session_.Undo(), "One?");
  EXPECT_TRUE(absl::IsFailedPrecondition(session_.Undo().status()));
  EXPECT_THAT(session_.history().turns, IsEmpty());
}

TEST_F(ChatSessionTest, AResetForgetsTheChatButNotTheSystemMessageAndTheSettings) {
  ASSERT_TRUE(session_.SetSystem("Be brief.").ok());
  session_.sampling().set_seed(3);
  Talk(session_, "One?", "1");
  session_.Reset();
  ASSERT_TRUE(session_.Ask("Two?").ok());
  EXPECT_THAT(Said(session_.Request().chat()), ElementsAre("system: Be brief.", "user: Two?"));
  EXPECT_EQ(session_.Request().sampling().seed(), 3);
}

TEST_F(ChatSessionTest, TheOldestTurnsAreLeftOutUntilItFits) {
  ASSERT_TRUE(session_.SetSystem("Be brief.").ok());
  for (const char* word : {"a", "b", "c", "d"}) Talk(session_, word, word);
  ASSERT_TRUE(session_.Ask("e").ok());
  ASSERT_TRUE(session_.Trim(FitsMessages(7)).ok());
  EXPECT_THAT(Said(session_.Request().chat()),
              ElementsAre("system: Be brief.", "user: c", "assistant: c", "user: d", "assistant: d", "user: e"));
}

TEST_F(ChatSessionTest, NoTurnIsLeftOutOfWhatFits) {
  int calls = 0;
  for (const char* word : {"a", "b", "c", "d"}) Talk(session_, word, word);
  ASSERT_TRUE(session_.Ask("e").ok());
  ASSERT_TRUE(session_.Trim(FitsMessages(9, &calls)).ok());
  EXPECT_EQ(session_.Request().chat().messages_size(), 9);
  EXPECT_EQ(calls, 1) << "the server is asked once";
  EXPECT_FALSE(session_.OnAnswer("e", AnswerEnd::kWhole));
}

TEST_F(ChatSessionTest, OfManyTurnsExactlyThoseThatFitStay) {
  for (int i = 0; i < 40; ++i) Talk(session_, "q", "a");
  for (int turns = 0; turns <= 40; ++turns) {
    ChatSession session = session_;
    int calls = 0;
    ASSERT_TRUE(session.Ask("last").ok());
    ASSERT_TRUE(session.Trim(FitsMessages(2 * turns + 1, &calls)).ok());
    EXPECT_EQ(session.Request().chat().messages_size(), 2 * turns + 1);
    EXPECT_LE(calls, 8);
  }
}

TEST_F(ChatSessionTest, ThatTurnsAreLeftOutIsSaidOnce) {
  for (const char* word : {"a", "b", "c"}) Talk(session_, word, word);
  ASSERT_TRUE(session_.Ask("d").ok());
  ASSERT_TRUE(session_.Trim(FitsMessages(5)).ok());
  EXPECT_TRUE(session_.OnAnswer("d", AnswerEnd::kWhole));
  EXPECT_THAT(ShowChat(session_), HasSubstr("user (left out): a\nassistant (left out): a\nuser: b\n"));
  ASSERT_TRUE(session_.Ask("e").ok());
  ASSERT_TRUE(session_.Trim(FitsMessages(5)).ok());
  EXPECT_THAT(Said(session_.Request().chat()),
              ElementsAre("user: c", "assistant: c", "user: d", "assistant: d", "user: e"));
  EXPECT_FALSE(session_.OnAnswer("e", AnswerEnd::kWhole));
  EXPECT_EQ(session_.history().turns.size(), 5) << "they are kept for the user";
  session_.Reset();
  EXPECT_EQ(session_.left_out(), 0);
}

TEST_F(ChatSessionTest, AFailureLeavesNoTurnOut) {
  for (const char* word : {"a", "b", "c"}) Talk(session_, word, word);
  ASSERT_TRUE(session_.Ask("a question that is much too long").ok());
  ASSERT_TRUE(session_.Trim(FitsMessages(0)).ok());
  EXPECT_EQ(session_.Request().chat().messages_size(), 1) << "the server is to say that it is too long";
  session_.OnFailure();
  ASSERT_TRUE(session_.Ask("d").ok());
  EXPECT_EQ(session_.Request().chat().messages_size(), 7);
}

TEST_F(ChatSessionTest, AFirstQuestionIsSentAsItIs) {
  ASSERT_TRUE(session_.Ask("One?").ok());
  EXPECT_TRUE(session_.Trim([](const v1::ChatPrompt&) { return absl::InternalError("asked for nothing"); }).ok());
}

TEST_F(ChatSessionTest, AServerThatDoesNotSayWhatFitsIsAnError) {
  Talk(session_, "One?", "1");
  ASSERT_TRUE(session_.Ask("Two?").ok());
  EXPECT_TRUE(absl::IsUnavailable(session_.Trim([](const v1::ChatPrompt&) { return absl::UnavailableError("gone"); })));
}

TEST_F(ChatSessionTest, WhatNoServerTakesIsLeftOutWithoutAskingOne) {
  ChatHistory history;
  for (int i = 0; i < kMaxChatMessages; ++i) history.turns.push_back({"q", "a"});
  session_.Load(history);
  ASSERT_TRUE(session_.Ask("last").ok());
  ASSERT_TRUE(session_.Trim(FitsMessages(kMaxChatMessages * 2)).ok());
  EXPECT_EQ(session_.Request().chat().messages_size(), kMaxChatMessages - 1);
  session_.OnFailure();
  session_.Load({.turns = {{std::string(kMaxPromptBytes, 'x'), "a"}, {"q", "a"}}});
  ASSERT_TRUE(session_.Ask("last").ok());
  ASSERT_TRUE(session_.Trim(FitsMessages(5)).ok());
  EXPECT_THAT(Said(session_.Request().chat()), ElementsAre("user: q", "assistant: a", "user: last"));
}

TEST_F(ChatSessionTest, TheHistoryIsBounded) {
  ChatHistory history;
  for (size_t i = 0; i < kMaxKeptTurns; ++i) history.turns.push_back({"q", "a"});
  session_.Load(history);
  Talk(session_, "last", "a");
  EXPECT_EQ(session_.history().turns.size(), kMaxKeptTurns);
  EXPECT_EQ(session_.history().turns.back().question, "last");
}

TEST_F(ChatSessionTest, ALoadedQuestionWithoutAnAnswerCanBeRetried) {
  Talk(session_, "Old?", "old");
  session_.Load({.system = "Be kind.", .turns = {{"One?", "1"}}, .unanswered = "Two?"});
  ASSERT_TRUE(session_.Retry().ok());
  EXPECT_THAT(Said(session_.Request().chat()),
              ElementsAre("system: Be kind.", "user: One?", "assistant: 1", "user: Two?"));
}

}  // namespace
}  // namespace baton::cli
