// Requests from end to end in memory: the adapter is a sink that keeps events, the worker is a script, and all that
// lies between them is the real thing.
#include "router/generator.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "router/error_details.h"
#include "router/testing/memory_sink.h"
#include "router/testing/scripted_loop_test.h"

namespace baton::router {
namespace {

constexpr JobId kId = {.high = 3, .low = 4};

// The tokens of `text`, one for each byte.
std::vector<int32_t> Tokens(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(modelfile::kTinyFirstByteToken + static_cast<uint8_t>(c));
  return tokens;
}

GenerationRequest Ask(const std::string& text) {
  GenerationRequest request;
  request.id = kId;
  request.prompt = TextPrompt{text};
  return request;
}

std::string TextOf(const std::vector<GenerationEvent>& events) {
  std::string text;
  for (const GenerationEvent& event : events) {
    if (const auto* delta = std::get_if<GenerationDelta>(&event)) text += delta->text;
  }
  return text;
}

absl::Status StatusOf(const std::vector<GenerationEvent>& events) {
  const auto* failed = std::get_if<GenerationFailed>(&events.back());
  return failed == nullptr ? absl::OkStatus() : failed->status;
}

class GeneratorTest : public ScriptedLoopTest {
 protected:
  ~GeneratorTest() override { loop_.Stop(); }

  std::vector<GenerationEvent> Generate(GenerationRequest request) {
    generator_.Generate(std::move(request), sink_);
    return sink_->WaitForEnd();
  }

  Generator generator_{model_, clock_, random_, loop_};
  std::shared_ptr<MemorySink> sink_ = std::make_shared<MemorySink>();
};

TEST_F(GeneratorTest, ADrainWaitsForAPausedRequestAndCutsItInTheEnd) {
  StartLoop({.tokens = Tokens("abc"), .finish = FinishReason::kLength, .silent_after = 2});
  sink_->SetBehind();
  generator_.Generate(Ask("hi"), sink_);
  ASSERT_EQ(AwaitPaused(1), 1u);
  EXPECT_EQ(Jobs(), 0) << "it neither runs nor waits for a worker";
  ASSERT_EQ(loop_.Drain(/*timeout_ms=*/20).size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(StatusOf(sink_->WaitForEnd())));
}

TEST_F(GeneratorTest, ARequestIsAcceptedStreamedTokenByTokenAndFinished) {
  StartLoop({.tokens = Tokens("abc"), .finish = FinishReason::kLength});
  GenerationRequest request = Ask("hi");
  request.sampling.seed = 42;
  const auto events = Generate(std::move(request));
  ASSERT_EQ(events.size(), 5u);
  const auto& accepted = std::get<GenerationAccepted>(events[0]);
  EXPECT_EQ(accepted.id, kId);
  EXPECT_EQ(accepted.seed, 42u);
  EXPECT_EQ(accepted.prompt_tokens, 2);
  for (size_t i = 0; i < 3; ++i) {
    const auto& delta = std::get<GenerationDelta>(events[i + 1]);
    EXPECT_EQ(delta.text, std::string("abc").substr(i, 1));
    ASSERT_EQ(delta.tokens.size(), 1u);
    EXPECT_EQ(delta.tokens[0].index, static_cast<int32_t>(i));
    EXPECT_EQ(delta.tokens[0].token, Tokens("abc")[i]);
    EXPECT_FALSE(delta.has_logprobs);
  }
  const auto& finished = std::get<GenerationFinished>(events[4]);
  EXPECT_EQ(finished.id, kId);
  EXPECT_EQ(finished.seed, 42u);
  EXPECT_EQ(finished.reason, FinishReason::kLength);
  EXPECT_EQ(finished.usage.prompt_tokens, 2);
  EXPECT_EQ(finished.usage.output_tokens, 3);
}

TEST_F(GeneratorTest, TheDrawnSeedIsTheOneThatTheWorkerGets) {
  StartLoop({.tokens = Tokens("a")});
  const auto events = Generate(Ask("hi"));
  ASSERT_EQ(worker_->started().size(), 1u);
  const uint64_t seed = worker_->started()[0]->sampling.seed;
  EXPECT_NE(seed, 0u);
  EXPECT_EQ(std::get<GenerationAccepted>(events.front()).seed, seed);
  EXPECT_EQ(std::get<GenerationFinished>(events.back()).seed, seed);
}

TEST_F(GeneratorTest, LogProbabilitiesComeWithTheirTokensWhenAskedFor) {
  StartLoop({.tokens = Tokens("a"), .logprob = -0.5f});
  GenerationRequest request = Ask("hi");
  request.sampling.logprobs = 0;
  const auto events = Generate(std::move(request));
  const auto& delta = std::get<GenerationDelta>(events[1]);
  EXPECT_TRUE(delta.has_logprobs);
  EXPECT_EQ(delta.tokens[0].logprob, -0.5f);
}

TEST_F(GeneratorTest, WhatIsAskedOfThePromptComesWithTheFirstTokenAlone) {
  StartLoop({.tokens = Tokens("ab"), .prompt_logprob = -0.5f});
  GenerationRequest request = Ask("hey");
  request.sampling.prompt_logprobs = 0;
  request.echo = true;
  const auto events = Generate(std::move(request));
  const auto& delta = std::get<GenerationDelta>(events[1]);
  ASSERT_NE(delta.prompt, nullptr);
  EXPECT_EQ(delta.prompt->text, "hey");
  EXPECT_EQ(delta.prompt->tokens, Tokens("hey"));
  ASSERT_NE(delta.prompt->logprobs, nullptr);
  ASSERT_EQ(delta.prompt->logprobs->size(), 2u);
  EXPECT_EQ((*delta.prompt->logprobs)[1].logprob, -0.5f);
  EXPECT_EQ(std::get<GenerationDelta>(events[2]).prompt, nullptr);
}

TEST_F(GeneratorTest, TheTokensOfAPromptComeAlone) {
  StartLoop({.tokens = Tokens("ab")});
  GenerationRequest request = Ask("hey");
  request.want_prompt_tokens = true;
  const auto events = Generate(std::move(request));
  const auto& delta = std::get<GenerationDelta>(events[1]);
  ASSERT_NE(delta.prompt, nullptr);
  EXPECT_EQ(delta.prompt->tokens, Tokens("hey"));
  EXPECT_FALSE(delta.prompt->text.has_value());
  EXPECT_EQ(delta.prompt->logprobs, nullptr);
  EXPECT_EQ(std::get<GenerationDelta>(events[2]).prompt, nullptr);
}

TEST_F(GeneratorTest, NothingIsSaidOfAPromptThatNobodyAsksAbout) {
  StartLoop({.tokens = Tokens("a")});
  EXPECT_EQ(std::get<GenerationDelta>(Generate(Ask("hey"))[1]).prompt, nullptr);
}

TEST_F(GeneratorTest, ThePhasesAndTheNetworkAddUpToTheTimeSinceTheRequestArrived) {
  StartLoop({.tokens = Tokens("a")});
  GenerationRequest request = Ask("hi");
  request.arrived = clock_.Now() - 7 * kNsPerMs;
  const auto events = Generate(std::move(request));
  const GenerationTiming& timing = std::get<GenerationFinished>(events.back()).timing;
  EXPECT_EQ(timing.total_ns, 7 * kNsPerMs);
  const PhaseTimes& phases = timing.phases;
  EXPECT_EQ(phases.queue_ns + phases.admission_ns + phases.prefill_ns + phases.transfer_ns + phases.decode_ns +
                timing.network_ns,
            timing.total_ns);
}

TEST_F(GeneratorTest, AStopStringThatSpansTokensEndsTheTextBeforeItAndCancelsTheWorker) {
  StartLoop({.tokens = Tokens("textENDmore"), .finish = FinishReason::kNone});
  GenerationRequest request = Ask("hi");
  request.stop = {"never", "END"};
  const auto events = Generate(std::move(request));
  EXPECT_EQ(TextOf(events), "text");
  EXPECT_EQ(std::get<GenerationFinished>(events.back()).reason, FinishReason::kStop);
  EXPECT_EQ(std::get<GenerationFinished>(events.back()).stop_index, 1);
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(GeneratorTest, TextThatWasHeldBackForAStopStringComesWithTheEnd) {
  StartLoop({.tokens = Tokens("textEN"), .finish = FinishReason::kLength});
  GenerationRequest request = Ask("hi");
  request.stop = {"END"};
  const auto events = Generate(std::move(request));
  EXPECT_EQ(TextOf(events), "textEN");
  EXPECT_EQ(std::get<GenerationFinished>(events.back()).reason, FinishReason::kLength);
  EXPECT_EQ(std::get<GenerationFinished>(events.back()).stop_index, std::nullopt);
}

TEST_F(GeneratorTest, ARefusedFieldIsNamedAndReachesNoWorker) {
  StartLoop({.tokens = Tokens("a")});
  GenerationRequest request = Ask("hi");
  request.choices = 0;
  const auto events = Generate(std::move(request));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(StatusOf(events).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetFieldError(StatusOf(events))->field, "choices");
  EXPECT_TRUE(worker_->started().empty());
}

TEST_F(GeneratorTest, AWorkersErrorEndsTheRequest) {
  StartLoop({.error = absl::InternalError("broken")});
  EXPECT_EQ(StatusOf(Generate(Ask("hi"))), absl::InternalError("decode worker worker: broken"));
}

TEST_F(GeneratorTest, ATokenOutsideTheVocabularyEndsTheRequest) {
  StartLoop({.tokens = {model_.config.vocab_size}, .finish = FinishReason::kNone});
  EXPECT_EQ(StatusOf(Generate(Ask("hi"))).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(GeneratorTest, AReaderThatIsTooSlowIsCancelledAndToldWhenToComeBack) {
  StartLoop({.tokens = Tokens("abcdef"), .finish = FinishReason::kNone});
  sink_ = std::make_shared<MemorySink>(/*room=*/3);
  const auto events = Generate(Ask("hi"));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(TextOf(events), "ab");
  EXPECT_EQ(StatusOf(events).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(GetRetryAfterMs(StatusOf(events)).value_or(0), 0);
  EXPECT_EQ(Jobs(), 0);
  EXPECT_EQ(sink_->WaitForEnd().size(), 4u) << "nothing follows the end";
}

TEST_F(GeneratorTest, CancelEndsARunningRequest) {
  StartLoop({.tokens = Tokens("abc"), .finish = FinishReason::kNone});
  generator_.Generate(Ask("hi"), sink_);
  sink_->WaitForEvents(4);
  sink_->SetCancelled();
  generator_.Cancel(kId);
  EXPECT_EQ(StatusOf(sink_->WaitForEnd()).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(GeneratorTest, ACancelThatComesBeforeTheJobEndsItToo) {
  StartLoop({.tokens = Tokens("abc"), .finish = FinishReason::kNone});
  sink_->SetCancelled();
  generator_.Cancel(kId);
  const auto events = Generate(Ask("hi"));
  EXPECT_EQ(events.size(), 1u);
  EXPECT_EQ(StatusOf(events).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(worker_->started().empty());
}

TEST_F(GeneratorTest, ADrainEndsWithTheLastRequestAndCutsNothing) {
  StartLoop({.tokens = Tokens("abc"), .finish = FinishReason::kNone});
  generator_.Generate(Ask("hi"), sink_);
  sink_->WaitForEvents(4);
  std::thread client([this] { generator_.Cancel(kId); });
  EXPECT_TRUE(loop_.Drain(60'000).empty());
  client.join();
  EXPECT_EQ(StatusOf(sink_->WaitForEnd()).code(), absl::StatusCode::kCancelled);
}

TEST_F(GeneratorTest, ADrainingRouterRefusesNewRequests) {
  StartLoop({.tokens = Tokens("a")});
  EXPECT_TRUE(loop_.Drain(60'000).empty());
  EXPECT_EQ(StatusOf(Generate(Ask("hi"))).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(worker_->started().empty());
}

TEST_F(GeneratorTest, ARequestThatOutlivesADrainIsCutWithAReasonAndNamed) {
  StartLoop({.tokens = Tokens("abc"), .finish = FinishReason::kNone});
  generator_.Generate(Ask("hi"), sink_);
  sink_->WaitForEvents(4);
  EXPECT_EQ(loop_.Drain(1), std::vector<ChoiceKey>{{.job = kId}});
  const auto events = sink_->WaitForEnd();
  EXPECT_TRUE(absl::IsUnavailable(StatusOf(events))) << StatusOf(events);
  EXPECT_EQ(StatusOf(events).message(),
            absl::StrCat("the router is shutting down: request ", kId.ToHex(),
                         " did not end within the drain time-out of 1 ms and was cut: send it again"));
  EXPECT_EQ(Jobs(), 0);
  EXPECT_EQ(worker_->cancelled(), 1) << "the worker computes no more";
}

TEST_F(GeneratorTest, ALoopThatHasStoppedRefusesAndSaysWhenToComeBack) {
  StartLoop({.tokens = Tokens("a")});
  loop_.Stop();
  const auto events = Generate(Ask("hi"));
  EXPECT_EQ(StatusOf(events).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(GetRetryAfterMs(StatusOf(events)).value_or(0), 0);
}

}  // namespace
}  // namespace baton::router
