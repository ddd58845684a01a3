// Which jobs are refused or dropped for want of time or of tokens, and what their clients are told.
#include <chrono>
#include <cstdio>
#include <string>

#include "common/limits.h"
#include "gmock/gmock.h"
#include "router/error_details.h"
#include "router/queue_pace.h"
#include "router/refusal_reason.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DispatcherAdmissionTest : public DispatcherTest {
 protected:
  static constexpr int kPrompt = 128;
  static constexpr int64_t kPromptMs = 100;

  // Jobs that wait for the prefill worker, which takes kPromptMs for each. One is running at the end.
  void LearnPace(uint64_t jobs) {
    JoinPair();
    for (uint64_t n = 1; n <= jobs + 1; ++n) Submit(n, {.prompt_tokens = kPrompt});
    for (uint64_t n = 1; n <= jobs; ++n) {
      AdvanceMs(kPromptMs);
      PrefillDone(KeyOf(n), 70);
      DecodeDone(KeyOf(n));
    }
    Actions();
  }
  absl::Status SubmitWithin(uint64_t n, int64_t ms, const std::string& tenant = "") {
    return dispatcher().Submit(
        MakeJob(n, {.prompt_tokens = kPrompt, .deadline = clock_.Now() + ms * kNsPerMs, .tenant = tenant}));
  }
};

TEST_F(DispatcherAdmissionTest, AJobWhoseFirstTokenWouldComeTooLateIsRefusedAndToldWhenToComeBack) {
  LearnPace(40);
  for (uint64_t n = 100; n < 120; ++n) Submit(n, {.prompt_tokens = kPrompt});
  const absl::Status refused = SubmitWithin(200, 1'000);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(GetRefusalReason(refused), RefusalReason::kDeadline);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("deadline is in 1000 ms"));
  // Twenty jobs wait, of which the last must have begun 100 ms before the deadline.
  const int64_t retry_after_ms = GetRetryAfterMs(refused).value_or(0);
  EXPECT_GT(retry_after_ms, 1'000);
  EXPECT_LT(retry_after_ms, 2'500);
  EXPECT_TRUE(SubmitWithin(201, 10'000).ok());
  EXPECT_EQ(dispatcher().queued_jobs(), 21);
}

TEST_F(DispatcherAdmissionTest, NobodyIsRefusedOnAGuess) {
  LearnPace(kLeastPlacements - 1);
  for (uint64_t n = 100; n < 120; ++n) Submit(n, {.prompt_tokens = kPrompt});
  EXPECT_TRUE(SubmitWithin(200, 1).ok());
}

TEST_F(DispatcherAdmissionTest, NobodyIsRefusedWhileNobodyWaitsOrWhileAWorkerIsIdle) {
  LearnPace(40);
  EXPECT_EQ(dispatcher().queued_jobs(), 0);
  EXPECT_TRUE(SubmitWithin(100, 1).ok()) << "it waits alone";
  PrefillDone(KeyOf(41), 70);
  DecodeDone(KeyOf(41));
  EXPECT_EQ(dispatcher().queued_jobs(), 0);
  PrefillDone(KeyOf(100), 70);
  DecodeDone(KeyOf(100));
  // It waits for a larger decode worker than there is at the moment.
  Submit(101, {.prompt_tokens = kPrompt});
  Submit(102, {.prompt_tokens = 99 * 16});
  PrefillDone(KeyOf(101), 70);
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
  EXPECT_TRUE(SubmitWithin(103, 1).ok());
}

TEST_F(DispatcherAdmissionTest, AJobWithoutADeadlineIsNeverRefusedForIt) {
  LearnPace(40);
  for (uint64_t n = 100; n < 500; ++n) Submit(n, {.prompt_tokens = kPrompt});
}

// The line is never walked through.
TEST_F(DispatcherAdmissionTest, ARefusalTakesFarLessThanAMillisecondHoweverManyWait) {
  constexpr int kRefusals = 1'000;
  options_.max_queued_jobs = kMaxRunningJobs;
  LearnPace(40);
  for (uint64_t n = 1'000; dispatcher().queued_jobs() < kMaxRunningJobs - 1; ++n) {
    Submit(n, {.prompt_tokens = kPrompt, .tenant = std::to_string(n % 100)});
  }
  Actions();
  const auto mean_us = [&](RefusalReason reason) {
    const auto began = std::chrono::steady_clock::now();
    for (uint64_t n = 0; n < kRefusals; ++n) {
      EXPECT_EQ(GetRefusalReason(SubmitWithin(100'000 + n, 1'000, "new")), reason);
    }
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / kRefusals;
  };
  const double deadline_us = mean_us(RefusalReason::kDeadline);
  Submit(99'999, {.prompt_tokens = kPrompt, .tenant = "new"});
  const double full_us = mean_us(RefusalReason::kQueueFull);
  std::printf("with %d jobs waiting, unoptimized: %.1f us for the deadline, %.1f us for a full queue\n",
              dispatcher().queued_jobs(), deadline_us, full_us);
  // Ten times what it takes on a slow machine.
  EXPECT_LT(deadline_us, 1'000);
  EXPECT_LT(full_us, 1'000);
}

TEST_F(DispatcherAdmissionTest, AJobThatCanNoLongerBeInTimeIsDroppedBeforeItsDeadline) {
  LearnPace(40);
  ASSERT_TRUE(SubmitWithin(100, 1'000).ok());
  RunMs(1'000 - kPromptMs - 1);
  EXPECT_THAT(Actions(), ElementsAre());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("100:RESOURCE_EXHAUSTED"));
  EXPECT_EQ(GetRefusalReason(LastResult().status), RefusalReason::kDeadline);
  EXPECT_GT(GetRetryAfterMs(LastResult().status).value_or(0), 0);
}

TEST_F(DispatcherAdmissionTest, AJobThatWasPlacedInTimeHasItsWholeDeadline) {
  LearnPace(40);
  ASSERT_TRUE(SubmitWithin(100, 1'000).ok());
  PrefillDone(KeyOf(41), 70);
  Actions();
  RunMs(999);
  EXPECT_THAT(Actions(), ElementsAre());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("-P1 100/1", "-D2 100/1", "100:DEADLINE_EXCEEDED"));
}

TEST_F(DispatcherAdmissionTest, AJobWithOutputsIsNotDropped) {
  LearnPace(40);
  ASSERT_TRUE(SubmitWithin(100, 1'000).ok());
  PrefillDone(KeyOf(41), 70);
  DecodeDone(KeyOf(41));
  PrefillDone(KeyOf(100), 70);
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  Actions();
  RunMs(999);
  EXPECT_THAT(Actions(), ElementsAre());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("100:DEADLINE_EXCEEDED"));
}

TEST_F(DispatcherAdmissionTest, ATenantThatHasUsedItsTokensUpIsToldExactlyWhenToComeBack) {
  options_.tenant_buckets = {.tokens_per_second = 100, .burst_tokens = 300};
  JoinPair();
  // Its prompt, and 8 outputs that count twice.
  Submit(1, {.prompt_tokens = 184, .tenant = "a"});
  EXPECT_TRUE(dispatcher().Submit(MakeJob(2, {.prompt_tokens = 184, .tenant = "b"})).ok());
  const absl::Status refused = dispatcher().Submit(MakeJob(3, {.prompt_tokens = 184, .tenant = "a"}));
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(GetRefusalReason(refused), RefusalReason::kTenantRate);
  EXPECT_EQ(GetRetryAfterMs(refused), 1'000);
  AdvanceMs(999);
  EXPECT_FALSE(dispatcher().Submit(MakeJob(4, {.prompt_tokens = 184, .tenant = "a"})).ok());
  AdvanceMs(1);
  EXPECT_TRUE(dispatcher().Submit(MakeJob(5, {.prompt_tokens = 184, .tenant = "a"})).ok());
}

TEST_F(DispatcherAdmissionTest, AJobIsChargedForTheOutputsThatItHad) {
  options_.tenant_buckets = {.tokens_per_second = 100, .burst_tokens = 300};
  JoinPair();
  Submit(1, {.prompt_tokens = 100, .max_tokens = 1'000});
  EXPECT_FALSE(dispatcher().Submit(MakeJob(2, {.prompt_tokens = 100, .max_tokens = 1})).ok());
  PrefillDone(KeyOf(1), 70);
  DecodeDone(KeyOf(1));
  EXPECT_TRUE(dispatcher().Submit(MakeJob(3, {.prompt_tokens = 194, .max_tokens = 1})).ok()) << "104 of 300 are used";
  EXPECT_FALSE(dispatcher().Submit(MakeJob(4, {.prompt_tokens = 1, .max_tokens = 1})).ok());
}

TEST_F(DispatcherAdmissionTest, AJobThatNeverBeganCostsItsTenantNothing) {
  options_.tenant_buckets = {.tokens_per_second = 100, .burst_tokens = 300};
  Submit(1, {.prompt_tokens = 100, .max_tokens = 100});
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::CancelledError("the client left"));
  EXPECT_TRUE(dispatcher().Submit(MakeJob(2, {.prompt_tokens = 100, .max_tokens = 100})).ok());
}

}  // namespace
}  // namespace baton::router
