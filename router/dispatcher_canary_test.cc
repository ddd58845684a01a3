// Canaries find and free bad pairs at no client's risk, and are nobody's jobs.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kIntervalMs = 60'000;

class DispatcherCanaryTest : public DispatcherTest {
 protected:
  DispatcherCanaryTest() {
    options_.worker_silence_ms = 10'000'000;
    options_.canary_interval_ms = kIntervalMs;
  }

  // The canaries that have begun since the last call; a client's job is a failure here.
  std::vector<StartDecode> Begun() {
    std::vector<StartDecode> begun;
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      EXPECT_FALSE(std::holds_alternative<EmitToken>(action));
      EXPECT_FALSE(std::holds_alternative<EndJob>(action));
      if (const auto* start = std::get_if<StartDecode>(&action)) begun.push_back(*start);
    }
    return begun;
  }
  StartDecode NextCanary() {
    // At most one begins in a step.
    constexpr int64_t kStepMs = kCanaryPaceMs / 2;
    for (int64_t ms = 0; ms < 2 * kIntervalMs; ms += kStepMs) {
      if (std::vector<StartDecode> begun = Begun(); !begun.empty()) return begun.back();
      RunMs(kStepMs);
    }
    ADD_FAILURE() << "no canary";
    return {};
  }
  static std::string PairOf(const StartDecode& start) {
    return std::to_string(start.source.low) + "/" + std::to_string(start.worker.low);
  }
  void Answer(const JobKey& key, int32_t first = 70) {
    PrefillDone(key, first);
    Committed(key);
    for (int32_t n = 0; n < kCanaryOutputs; ++n) {
      Token(kD, key, n, first + n, n + 1 == kCanaryOutputs ? FinishReason::kLength : FinishReason::kNone);
    }
    Finished(kD, key);
    CallEnd(kD, key);
  }
  void FailHandOff(const JobKey& key) {
    Started(kD, key);
    CallEnd(kD, key, kBroken);
    RunMs(options_.echo_wait_ms);
    CallEnd(kP, key, kCancelledCall);
  }
  int64_t Count(CanaryOutcome outcome) { return dispatcher().canary_counts()[static_cast<size_t>(outcome)]; }
  size_t bad_pairs() { return dispatcher().health().bad_pairs(); }
  std::vector<std::string> Notes() { return dispatcher().TakeHealthNotes(); }
};

TEST_F(DispatcherCanaryTest, NoneBeginsUnlessTheyAreTurnedOn) {
  options_.canary_interval_ms = 0;
  JoinPair();
  RunMs(2 * kIntervalMs);
  EXPECT_THAT(Begun(), IsEmpty());
}

TEST_F(DispatcherCanaryTest, EachIdlePairGetsOneInTurnAndNoneAgainWithinTheInterval) {
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kPrefill);
  Join(3, WorkerRole::kDecode);
  std::vector<std::string> pairs;
  for (int n = 0; n < 2; ++n) {
    const StartDecode canary = NextCanary();
    pairs.push_back(PairOf(canary));
    Answer(canary.key);
  }
  EXPECT_THAT(pairs, ElementsAre("1/3", "2/3"));
  RunMs(kIntervalMs / 2);
  EXPECT_THAT(Begun(), IsEmpty());
  EXPECT_EQ(Count(CanaryOutcome::kOk), 2);
  EXPECT_THAT(Notes(), IsEmpty());
  ExpectNothingLeft();
  EXPECT_EQ(PairOf(NextCanary()), "1/3") << "the interval is over";
}

TEST_F(DispatcherCanaryTest, APairThatServesAClientNeedsNone) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Committed(KeyOf(1));
  DecodeDone(KeyOf(1));
  Actions();
  RunMs(kIntervalMs - kCanaryPaceMs);
  EXPECT_THAT(Begun(), IsEmpty());
}

TEST_F(DispatcherCanaryTest, NoneBeginsWhileAClientsRequestWaits) {
  Join(1, WorkerRole::kPrefill);
  Submit(1);
  Join(3, WorkerRole::kDecode);
  Actions();
  EXPECT_EQ(dispatcher().queued_jobs(), 0);
  Submit(2, {.prompt_tokens = 640});
  Submit(3, {.prompt_tokens = 640});
  ASSERT_GT(dispatcher().queued_jobs(), 0);
  Actions();
  RunMs(1'000);
  EXPECT_THAT(Begun(), IsEmpty());
}

TEST_F(DispatcherCanaryTest, TheNextClientAvoidsAnIdlePairWhoseCanaryFailed) {
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kPrefill);
  Join(3, WorkerRole::kDecode);
  const StartDecode canary = NextCanary();
  ASSERT_EQ(PairOf(canary), "1/3");
  FailHandOff(canary.key);
  EXPECT_EQ(Count(CanaryOutcome::kFailed), 1);
  EXPECT_THAT(Notes(), ElementsAre(HasSubstr("a canary met")));
  Begun();
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("P2 1/1", "D3 1/1"));
}

TEST_F(DispatcherCanaryTest, APairOnTrialIsFreedByACanaryAndNoClientTriesIt) {
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kPrefill);
  Join(3, WorkerRole::kDecode);
  FailHandOff(NextCanary().key);
  Answer(NextCanary().key);
  Notes();
  AdvanceMs(kMinAvoidMs * 5 / 4);
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("P2 1/1", "D3 1/1")) << "the canary goes first";
  const StartDecode trial = NextCanary();
  ASSERT_EQ(PairOf(trial), "1/3");
  EXPECT_EQ(bad_pairs(), 1u);
  Answer(trial.key);
  EXPECT_EQ(bad_pairs(), 0u);
  EXPECT_THAT(Notes(), ElementsAre(HasSubstr("go well again")));
}

TEST_F(DispatcherCanaryTest, AnotherAnswerThanTheFirstOneIsAFailureOfThePair) {
  JoinPair();
  Answer(NextCanary().key);
  Answer(NextCanary().key, 80);
  EXPECT_EQ(Count(CanaryOutcome::kOk), 1);
  EXPECT_EQ(Count(CanaryOutcome::kWrongAnswer), 1);
  EXPECT_EQ(bad_pairs(), 1u);
  EXPECT_THAT(Notes(), ElementsAre(HasSubstr("WRONG OUTPUT")));
  Answer(NextCanary().key);
  EXPECT_EQ(bad_pairs(), 0u);
}

TEST_F(DispatcherCanaryTest, ARefusalSaysNothingOfThePair) {
  JoinPair();
  const StartDecode canary = NextCanary();
  CallEnd(kD, canary.key, kBroken);
  Refuse(kP, canary.key);
  EXPECT_EQ(Count(CanaryOutcome::kUnknown), 1);
  EXPECT_EQ(bad_pairs(), 0u);
  RunMs(kIntervalMs / 2);
  EXPECT_THAT(Begun(), IsEmpty()) << "its turn has passed";
}

TEST_F(DispatcherCanaryTest, AHandOffThatHangsFailsAtTheDeadlineAndLeavesNothing) {
  JoinPair();
  const StartDecode canary = NextCanary();
  PrefillDone(canary.key, 70);
  RunMs(kCanaryDeadlineMs);
  EXPECT_EQ(Count(CanaryOutcome::kFailed), 1);
  CallEnd(kD, canary.key, kCancelledCall);
  ExpectNothingLeft();
}

TEST_F(DispatcherCanaryTest, TheLossOfAWorkerEndsItsCanary) {
  JoinPair();
  const StartDecode canary = NextCanary();
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  EXPECT_EQ(Count(CanaryOutcome::kUnknown), 1);
  CallEnd(kP, canary.key, kCancelledCall);
  ExpectNothingLeft();
}

TEST_F(DispatcherCanaryTest, OnlySoManyRunAtATime) {
  for (uint64_t n = 1; n <= 3; ++n) Join(n, WorkerRole::kPrefill);
  for (uint64_t n = 4; n <= 6; ++n) Join(n, WorkerRole::kDecode);
  RunMs(kCanaryDeadlineMs / 2);
  EXPECT_EQ(Begun().size(), kMaxCanaries);
}

}  // namespace
}  // namespace baton::router
