// What a client is sent of a request, over an exchange that the test plays by hand.
#include "gateway/answer_body.h"

#include <memory>
#include <string>
#include <utility>

#include "common/testing/manual_clock.h"
#include "gateway/openai_response.h"
#include "gateway/testing/fake_exchange.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/error_details.h"
#include "router/testing/tiny_served_model.h"

namespace baton::gateway {
namespace {

using router::GenerationAccepted;
using router::GenerationDelta;
using router::GenerationFailed;
using router::GenerationFinished;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class AnswerBodyTest : public ::testing::Test {
 protected:
  void Begin(bool is_stream) {
    answer_ = std::make_shared<AnswerBody>(exchange_, unread_, OpenAiError);
    exchange_->SetOnDone([this](const absl::Status&) { answer_->OnExchangeDone([this] { ++over_; }); });
    answer_->SetWriter(
        std::make_unique<OpenAiWriter>(
            OpenAiAnswer{.endpoint = OpenAiEndpoint::kCompletions, .id = "cmpl-1", .model = "m"}, *model_.tokenizer),
        is_stream);
  }
  void TearDown() override {
    exchange_->Done(absl::OkStatus());
    EXPECT_EQ(unread_.total_bytes(), 0);
    EXPECT_EQ(unread_.stream_count(), 0u);
  }
  static GenerationDelta Delta(std::string text) { return {.text = std::move(text), .tokens = {OutputToken()}}; }

  ManualClock clock_;
  router::UnreadOutput unread_{{}, clock_};
  const router::ServedModel model_ = router::TestModel();
  std::shared_ptr<FakeExchange> exchange_ = std::make_shared<FakeExchange>();
  std::shared_ptr<AnswerBody> answer_;
  int over_ = 0;
};

TEST_F(AnswerBodyTest, AStreamBeginsWithItsFirstOutputAndEndsWithDone) {
  Begin(/*is_stream=*/true);
  ASSERT_TRUE(answer_->Write(GenerationAccepted{}));
  EXPECT_FALSE(exchange_->response().has_value());
  ASSERT_TRUE(answer_->Write(Delta("one")));
  EXPECT_EQ(exchange_->response()->content_type, "text/event-stream");
  EXPECT_THAT(exchange_->Next().text, HasSubstr(R"("text":"one")"));
  EXPECT_THAT(exchange_->Next().text, IsEmpty());
  ASSERT_TRUE(answer_->Write(GenerationFinished{}));
  const BodySource::Piece last = exchange_->Next();
  EXPECT_TRUE(last.is_last);
  EXPECT_THAT(last.text, EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(over_, 0);
  exchange_->Done(absl::OkStatus());
  EXPECT_EQ(over_, 1);
}

TEST_F(AnswerBodyTest, AnAnswerIsWaitedForUntilItsClientHasTakenIt) {
  Begin(/*is_stream=*/true);
  EXPECT_EQ(unread_.AwaitRead(0), 0u);
  ASSERT_TRUE(answer_->Write(Delta("one")));
  ASSERT_TRUE(answer_->Write(GenerationFinished{}));
  EXPECT_EQ(unread_.AwaitRead(0), 1u);
  exchange_->Done(absl::OkStatus());
  EXPECT_EQ(unread_.AwaitRead(0), 0u);
}

TEST_F(AnswerBodyTest, AChatThatEndsWithoutAnOutputHasItsRoleAllTheSame) {
  OpenAiWriter writer({.endpoint = OpenAiEndpoint::kChat, .id = "chatcmpl-1", .model = "m"}, *model_.tokenizer);
  EXPECT_THAT(writer.End(GenerationFinished{}), HasSubstr(R"("role":"assistant")"));
}

TEST_F(AnswerBodyTest, WhatAClientDoesNotTakeAtOnceBecomesOneEvent) {
  Begin(/*is_stream=*/true);
  ASSERT_TRUE(answer_->Write(Delta("a")));
  const int wakes = exchange_->wakes();
  ASSERT_TRUE(answer_->Write(Delta("b")));
  EXPECT_EQ(exchange_->wakes(), wakes);
  EXPECT_THAT(exchange_->Next().text, HasSubstr(R"("text":"ab")"));
  ASSERT_TRUE(answer_->Write(Delta("c")));
  EXPECT_EQ(exchange_->wakes(), wakes + 1);
}

TEST_F(AnswerBodyTest, AWholeAnswerComesAtTheEnd) {
  Begin(/*is_stream=*/false);
  ASSERT_TRUE(answer_->Write(Delta("a")));
  ASSERT_TRUE(answer_->Write(Delta("b")));
  EXPECT_FALSE(exchange_->response().has_value());
  ASSERT_TRUE(answer_->Write(GenerationFinished{.usage = {.prompt_tokens = 3, .output_tokens = 2}}));
  EXPECT_EQ(exchange_->response()->content_type, "application/json");
  const BodySource::Piece piece = exchange_->Next();
  EXPECT_TRUE(piece.is_last);
  EXPECT_THAT(piece.text, HasSubstr(R"("text":"ab")"));
  EXPECT_THAT(piece.text, HasSubstr(R"("total_tokens":5)"));
}

TEST_F(AnswerBodyTest, AFailureBeforeAnyOutputHasAStatusOfItsOwn) {
  Begin(/*is_stream=*/true);
  ASSERT_TRUE(answer_->Write(GenerationFailed{router::WithRetryAfter(absl::ResourceExhaustedError("full"), 2500)}));
  EXPECT_FALSE(exchange_->streams());
  EXPECT_EQ(exchange_->response()->status, 429);
  EXPECT_THAT(exchange_->response()->headers,
              testing::Contains(std::pair<std::string, std::string>("Retry-After", "3")));
}

TEST_F(AnswerBodyTest, AFailureWithinAStreamIsItsLastEvent) {
  Begin(/*is_stream=*/true);
  ASSERT_TRUE(answer_->Write(Delta("a")));
  ASSERT_TRUE(answer_->Write(GenerationFailed{absl::UnavailableError("a worker died")}));
  const BodySource::Piece last = exchange_->Next();
  EXPECT_TRUE(last.is_last);
  EXPECT_THAT(last.text, HasSubstr(R"("error":{"message":"a worker died","type":"service_unavailable_error")"));
  EXPECT_THAT(last.text, Not(HasSubstr("finish_reason\":\"")));
}

TEST_F(AnswerBodyTest, TheEventsOfAClientThatHasLeftAreDroppedAndTheLastOneEndsTheRequest) {
  Begin(/*is_stream=*/true);
  ASSERT_TRUE(answer_->Write(Delta("a")));
  exchange_->Done(absl::CancelledError("gone"));
  EXPECT_TRUE(answer_->cancelled());
  EXPECT_EQ(unread_.total_bytes(), 0);
  EXPECT_EQ(over_, 0);
  EXPECT_TRUE(answer_->Write(Delta("b")));
  EXPECT_EQ(unread_.total_bytes(), 0);
  ASSERT_TRUE(answer_->Write(GenerationFailed{absl::CancelledError("gone")}));
  EXPECT_EQ(over_, 1);
}

TEST_F(AnswerBodyTest, AStreamThatNobodyReadsHasNoRoomInTheEnd) {
  Begin(/*is_stream=*/true);
  for (size_t i = 0; i < kMaxUnreadOutputTokens; ++i) {
    ASSERT_TRUE(answer_->HasRoom(Delta("x")));
    ASSERT_TRUE(answer_->Write(Delta("x")));
  }
  EXPECT_FALSE(answer_->HasRoom(Delta("x")));
  EXPECT_FALSE(answer_->Write(Delta("x")));
  // There is always room for the end.
  EXPECT_TRUE(answer_->Write(GenerationFailed{absl::ResourceExhaustedError("the client does not read")}));
}

TEST_F(AnswerBodyTest, TheClientOfAStreamIsBehindUntilItHasTakenWhatWaits) {
  Begin(/*is_stream=*/true);
  GenerationDelta much;
  much.tokens.resize(kMaxUnreadOutputTokens / 2);
  ASSERT_TRUE(answer_->Write(much));
  EXPECT_FALSE(answer_->is_behind());
  ASSERT_TRUE(answer_->Write(Delta("x")));
  EXPECT_TRUE(answer_->is_behind());
  exchange_->Next();
  EXPECT_FALSE(answer_->is_behind());
}

TEST_F(AnswerBodyTest, TheClientOfAWholeAnswerIsNeverBehind) {
  Begin(/*is_stream=*/false);
  ASSERT_TRUE(answer_->Write(Delta(std::string(kMaxWholeAnswerBytes / 2 + 1, 'x'))));
  EXPECT_FALSE(answer_->is_behind());
}

TEST_F(AnswerBodyTest, AWholeAnswerMayBeLongerThanWhatAStreamMayLeaveUnread) {
  Begin(/*is_stream=*/false);
  for (size_t i = 0; i <= kMaxUnreadOutputTokens; ++i) ASSERT_TRUE(answer_->Write(Delta("x")));
}

}  // namespace
}  // namespace baton::gateway
