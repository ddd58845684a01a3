// The line: its bound, its order, passing over, waiting for workers.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/tenant_shares.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DispatcherQueueTest : public DispatcherTest {
 protected:
  // A job that needs all of the decode worker, behind one that holds half of it.
  static constexpr int kHalfPrompt = 50 * 16;
  static constexpr int kFullPrompt = 99 * 16;

  // Its call of prefill and of decode end well.
  void RunToEnd(const JobKey& key) {
    PrefillDone(key, 70);
    DecodeDone(key);
  }
  // The only running job ends well. Which job starts then; the same one when none does.
  uint64_t RunToNext(uint64_t running) {
    Actions();
    RunToEnd(KeyOf(running));
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      if (const auto* start = std::get_if<StartPrefill>(&action)) running = start->key.job.low;
    }
    return running;
  }
};

TEST_F(DispatcherQueueTest, TheQueueIsBounded) {
  options_.max_queued_jobs = 2;
  Submit(1);
  Submit(2);
  const absl::Status status = dispatcher().Submit(MakeJob(3));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(dispatcher().queued_jobs(), 2);
  dispatcher().Cancel(KeyOf(3).choice_key(), absl::CancelledError(""));
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(DispatcherQueueTest, TheQueueHoldsAThousandJobsUnlessTheOptionSaysOtherwise) {
  const uint64_t most_of_one = kMaxQueuedJobs - kMaxQueuedJobs / kKeptPlaces;
  for (uint64_t n = 1; n <= most_of_one; ++n) Submit(n);
  const absl::Status beyond = dispatcher().Submit(MakeJob(most_of_one + 1));
  EXPECT_TRUE(absl::IsResourceExhausted(beyond));
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("kept for tenants with fewer"));
  for (uint64_t n = most_of_one + 1; n <= kMaxQueuedJobs; ++n) Submit(n, {.tenant = "other"});
  EXPECT_TRUE(absl::IsResourceExhausted(dispatcher().Submit(MakeJob(kMaxQueuedJobs + 1, {.tenant = "third"}))));
}

TEST_F(DispatcherQueueTest, OfTwoTenantsThatWaitNeitherGetsMuchMoreThanTheOther) {
  constexpr uint64_t kJobs = 60;
  constexpr int kPromptTokens = 300;
  options_.max_running_jobs = 1;
  // The second one comes when all requests of the first one wait already.
  for (uint64_t n = 1; n <= kJobs; ++n) Submit(n, {.prompt_tokens = kPromptTokens, .tenant = "first"});
  JoinPair();
  for (uint64_t n = kJobs + 1; n <= 2 * kJobs; ++n) Submit(n, {.prompt_tokens = kPromptTokens, .tenant = "second"});
  // Its prompt, and two outputs.
  constexpr int64_t kCost = kPromptTokens + 2 * kOutputTokenCost;
  std::array<int64_t, 2> served = {};
  uint64_t running = 1;
  for (uint64_t turn = 1; turn <= 2 * kJobs; ++turn) {
    served[running <= kJobs ? 0 : 1] += kCost;
    if (std::max(served[0], served[1]) < static_cast<int64_t>(kJobs) * kCost) {
      EXPECT_LE(std::abs(served[0] - served[1]), kQuantumTokens + 2 * kCost) << "after " << turn;
    }
    running = RunToNext(running);
  }
  ExpectNothingLeft();
}

TEST_F(DispatcherQueueTest, TheFewRequestsOfOneTenantGoBeforeTheFloodOfAnother) {
  constexpr uint64_t kFlood = 200;
  options_.max_running_jobs = 1;
  for (uint64_t n = 1; n <= kFlood; ++n) Submit(n, {.prompt_tokens = 300, .tenant = "flood"});
  JoinPair();
  uint64_t running = 1;
  int waited = 0;
  Submit(kFlood + 1, {.prompt_tokens = 300, .tenant = "few"});
  for (; running != kFlood + 1; ++waited) {
    ASSERT_LT(waited, 10);
    running = RunToNext(running);
  }
}

TEST_F(DispatcherQueueTest, NonsenseIsNotAccepted) {
  EXPECT_TRUE(absl::IsInvalidArgument(dispatcher().Submit(MakeJob(1, {.prompt_tokens = 0}))));
  Submit(2);
  EXPECT_TRUE(absl::IsAlreadyExists(dispatcher().Submit(MakeJob(2))));
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
}

TEST_F(DispatcherQueueTest, WaitingJobsStartInOrderWhenAPairIsThere) {
  Submit(1);
  Submit(2);
  Join(1, WorkerRole::kPrefill);
  EXPECT_THAT(Actions(), IsEmpty());
  Join(2, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "P1 2/1", "D2 2/1"));
}

TEST_F(DispatcherQueueTest, RunningJobsAreBounded) {
  options_.max_running_jobs = 1;
  JoinPair();
  Submit(1);
  Submit(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1"));
  RunToEnd(KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "1:1=71", "1:OK", "P1 2/1", "D2 2/1"));
}

TEST_F(DispatcherQueueTest, AsManyJobsRunAtOnceAsTheLimitSaysUnlessTheOptionSaysOtherwise) {
  WorkerInfo prefill = MakeWorker(1, WorkerRole::kPrefill);
  WorkerInfo decode = MakeWorker(2, WorkerRole::kDecode);
  for (WorkerInfo* worker : {&prefill, &decode}) {
    worker->total_blocks = worker->max_sequences = worker->chunk_tokens = 1 << 20;
    Join(*worker);
  }
  // Each job starts as it comes, so none stays in the queue.
  for (uint64_t n = 1; n <= kMaxRunningJobs; ++n) Submit(n);
  EXPECT_EQ(dispatcher().queued_jobs(), 0);
  Submit(kMaxRunningJobs + 1);
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
}

TEST_F(DispatcherQueueTest, CallsThatWorkersDoNotEndAreBounded) {
  options_.max_running_jobs = 1;
  JoinPair();
  Submit(1);
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::CancelledError("the client left"));
  Actions();
  Submit(2);
  EXPECT_THAT(Actions(), IsEmpty()) << "both calls of job 1 are still open";
  CallEnd(kP, KeyOf(1), kCancelledCall);
  EXPECT_THAT(Actions(), IsEmpty());
  CallEnd(kD, KeyOf(1), kCancelledCall);
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D2 2/1"));
}

TEST_F(DispatcherQueueTest, WithoutWorkersAJobEndsUnavailable) {
  Submit(1);
  RunMs(1000);
  Submit(2);
  RunMs(1000);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("start prefill and decode workers"));
  EXPECT_EQ(LastResult().phases.queue_ns, 2000 * kNsPerMs);
  Join(1, WorkerRole::kPrefill);
  RunMs(999);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("2:UNAVAILABLE")) << "a prefill worker alone is no pair";
}

TEST_F(DispatcherQueueTest, JobsWaitForLostWorkersToComeBack) {
  JoinPair();
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  Submit(1);
  Submit(2, {.deadline = clock_.Now() + 20'000 * kNsPerMs});
  Submit(3, {.max_tokens = 1});
  EXPECT_THAT(Actions(), ElementsAre("solo1 3/1"));
  RunMs(4'900);
  EXPECT_THAT(Actions(), IsEmpty());
  Join(3, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D3 1/1", "P1 2/1", "D3 2/1"));
}

TEST_F(DispatcherQueueTest, TheWaitForLostWorkersEndsWithTheDeadlineOrWhenTheyAreOverdue) {
  Join(1, WorkerRole::kMixed);
  RunMs(1'000);
  dispatcher().OnWorkerLost(MakeWorkerId(1), kBroken);
  Submit(1);
  Submit(2, {.deadline = clock_.Now() + 20'000 * kNsPerMs});
  RunMs(19'999);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("2:DEADLINE_EXCEEDED"));
  RunMs(39'999);
  Submit(3);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  RunMs(1'998);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("3:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("within 2000 ms"));
}

TEST_F(DispatcherQueueTest, AWorkerThatDrainedIsNotWaitedFor) {
  Join(1, WorkerRole::kMixed);
  dispatcher().OnWorkerLoad(MakeWorkerId(1), {.state = WorkerState::kDraining});
  dispatcher().OnWorkerLost(MakeWorkerId(1), absl::UnavailableError("the worker left"));
  Submit(1);
  RunMs(2'000);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
}

TEST_F(DispatcherQueueTest, AJobThatFitsOnlyALostWorkerWaitsForItToo) {
  options_.worker_silence_ms = 1'000'000;
  WorkerInfo small = MakeWorker(1, WorkerRole::kMixed);
  small.total_blocks = 10;
  Join(small);
  Join(2, WorkerRole::kMixed);
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  Submit(1, {.prompt_tokens = 1000});
  EXPECT_THAT(Actions(), IsEmpty());
  Submit(2, {.prompt_tokens = 99 * 16 + 1});
  EXPECT_THAT(Actions(), ElementsAre("2:INVALID_ARGUMENT")) << "that one never fitted";
  RunMs(59'999);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("1:INVALID_ARGUMENT"));
}

TEST_F(DispatcherQueueTest, AJobThatIsTooLateForTheTargetLetsOthersGoFirst) {
  options_.placing.ttft_target_ms = 100;
  JoinPair();
  Submit(1, {.prompt_tokens = 128});
  Submit(2, {.prompt_tokens = 64});
  AdvanceMs(80);
  Submit(3, {.prompt_tokens = 64});
  Actions();
  PrefillDone(KeyOf(1), 70);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "P1 3/1", "D2 3/1", "P1 2/1", "D2 2/1"))
      << "64 tokens take 40 ms now, job 2 has 20";
}

TEST_F(DispatcherQueueTest, AJobWaitsLongWhereWorkersExist) {
  options_.worker_silence_ms = 1'000'000;
  JoinPair();
  Submit(1, {.prompt_tokens = kFullPrompt});
  Submit(2);
  Actions();
  RunMs(100'000);
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
}

TEST_F(DispatcherQueueTest, DrainingWorkersGetNothingAndFinishWhatTheyHave) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  dispatcher().OnWorkerLoad(MakeWorkerId(2), {.state = WorkerState::kDraining});
  Submit(2);
  Actions();
  Token(kD, KeyOf(1), 1, 71);
  EXPECT_THAT(Actions(), ElementsAre("1:1=71"));
  RunMs(2000);
  EXPECT_THAT(Actions(), ElementsAre("2:UNAVAILABLE"));
}

TEST_F(DispatcherQueueTest, APromptLargerThanEveryPoolEndsAtOnce) {
  JoinPair();
  Submit(1, {.prompt_tokens = 99 * 16 + 1});
  EXPECT_THAT(Actions(), ElementsAre("1:INVALID_ARGUMENT"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("need 101 KV blocks for decode"));
  Submit(2, {.prompt_tokens = kFullPrompt});
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D2 2/1"));
}

TEST_F(DispatcherQueueTest, APromptThatFitsNowhereIsToldWhichWorkersAreTooSmall) {
  Join(1, WorkerRole::kPrefill);
  WorkerInfo small = MakeWorker(2, WorkerRole::kDecode);
  small.total_blocks = 50;
  Join(small);
  Submit(1, {.prompt_tokens = 50 * 16});
  EXPECT_THAT(Actions(), ElementsAre("1:INVALID_ARGUMENT"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("need 51 KV blocks for decode"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr(absl::StrCat("decode ", small.target, ", has 50")));
}

TEST_F(DispatcherQueueTest, TheHeadIsPassedOverABoundedNumberOfTimes) {
  options_.placing.max_passed_over = 2;
  options_.placing.ttft_target_ms = 100;
  JoinPair();
  Submit(1, {.prompt_tokens = kHalfPrompt});
  PrefillDone(KeyOf(1), 70);
  Submit(2, {.prompt_tokens = kFullPrompt});
  Actions();
  Submit(3);
  PrefillDone(KeyOf(3), 70);
  Submit(4);
  PrefillDone(KeyOf(4), 70);
  EXPECT_THAT(Actions(), ElementsAre("P1 3/1", "D2 3/1", "3:0=70", "P1 4/1", "D2 4/1", "4:0=70"));
  AdvanceMs(200);
  Submit(5);
  EXPECT_THAT(Actions(), IsEmpty()) << "the decode worker drains for job 2, late as it is";
  for (const uint64_t job : {1, 3}) {
    DecodeDone(KeyOf(job));
  }
  EXPECT_THAT(Actions(), ElementsAre("1:1=71", "1:OK", "3:1=71", "3:OK"));
  DecodeDone(KeyOf(4));
  EXPECT_THAT(Actions(), ElementsAre("4:1=71", "4:OK", "P1 2/1", "D2 2/1"));
}

TEST_F(DispatcherQueueTest, ARefusedJobGoesBackAheadOfAllThatCameLater) {
  JoinPair();
  Submit(1, {.prompt_tokens = 128});
  Submit(2, {.prompt_tokens = 128});
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1")) << "two chunks are pending at the prefill worker";
  Refuse(kD, KeyOf(1));
  CallEnd(kP, KeyOf(1), absl::CancelledError(""));
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "P1 2/1", "D2 2/1"));
  Submit(3, {.prompt_tokens = 128});
  PrefillDone(KeyOf(2), 70);
  EXPECT_THAT(Actions(), ElementsAre("2:0=70", "P1 3/1", "D2 3/1")) << "job 1 may not go to worker 2 yet";
  CallEnd(kP, KeyOf(3), absl::InternalError(""));
  EXPECT_THAT(Actions(), ElementsAre("-D2 3/1", "3:INTERNAL"));
  Submit(4, {.prompt_tokens = 128});
  Actions();
  CallEnd(kP, KeyOf(4), absl::InternalError(""));
  RunMs(20);
  EXPECT_THAT(Actions(), ElementsAre("-D2 4/1", "4:INTERNAL", "P1 1/2", "D2 1/2"));
}

TEST_F(DispatcherQueueTest, ARefusedJobKeepsItsPlaceBeforeThoseThatWaitedBehindIt) {
  JoinPair();
  for (const uint64_t job : {1, 2, 3}) Submit(job, {.prompt_tokens = 128});
  Refuse(kD, KeyOf(1));
  CallEnd(kP, KeyOf(1), kCancelledCall);
  RunMs(20);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "-P1 1/1", "P1 2/1", "D2 2/1"));
  PrefillDone(KeyOf(2), 70);
  EXPECT_THAT(Actions(), ElementsAre("2:0=70", "P1 1/2", "D2 1/2"));
}

TEST_F(DispatcherQueueTest, AJobThatEndsInTheLineHasNoAttemptButThoseThatFoundNoRoom) {
  JoinPair();
  Submit(1, {.prompt_tokens = 128});
  Started(kP, KeyOf(1), 16);
  Refuse(kD, KeyOf(1));
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::CancelledError("the client left"));
  Actions();
  EXPECT_EQ(LastResult().attempts, 1);
  EXPECT_EQ(LastResult().refusals, 1);
  EXPECT_EQ(LastResult().looked_up_tokens, 0);
}

TEST_F(DispatcherQueueTest, AResultNamesItsWorkersAndTheAttemptsThatFoundNoRoom) {
  JoinPair();
  Submit(1, {.prompt_tokens = 128});
  AdvanceMs(3);
  Refuse(kD, KeyOf(1));
  CallEnd(kP, KeyOf(1), kCancelledCall);
  RunMs(20);
  const JobKey again = {.job = KeyOf(1).job, .attempt = 2};
  PrefillDone(again, 70);
  DecodeDone(again);
  Actions();
  const JobResult& result = LastResult();
  EXPECT_EQ(result.attempts, 2);
  EXPECT_EQ(result.refusals, 1);
  EXPECT_EQ(result.prefill_worker, MakeWorker(1, WorkerRole::kPrefill).target);
  EXPECT_EQ(result.decode_worker, MakeWorker(2, WorkerRole::kDecode).target);
  ASSERT_EQ(result.given_up.size(), 1u);
  EXPECT_EQ(result.given_up[0].decode_worker, result.decode_worker);
  EXPECT_EQ(result.given_up[0].began_ns, 0);
  EXPECT_EQ(result.given_up[0].ended_ns, 3 * kNsPerMs);
  EXPECT_EQ(result.given_up[0].why, "no room");
}

TEST_F(DispatcherQueueTest, AnAdaptersRequestCountsFromItsArrival) {
  JoinPair();
  AdvanceMs(50);
  JobSpec spec = *MakeJob(1, {});
  spec.arrived = clock_.Now() - 40 * kNsPerMs;
  ASSERT_TRUE(dispatcher().Submit(std::make_shared<const JobSpec>(spec)).ok());
  PrefillDone(KeyOf(1), 70);
  DecodeDone(KeyOf(1));
  Actions();
  EXPECT_EQ(LastResult().phases.queue_ns, 40 * kNsPerMs);
}

TEST_F(DispatcherQueueTest, AWorkersFreedRoomEndsTheWaitAfterItsRefusal) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Submit(2);
  Refuse(kD, KeyOf(2));
  CallEnd(kP, KeyOf(2), absl::CancelledError(""));
  Actions();
  DecodeDone(KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:1=71", "1:OK", "P1 2/2", "D2 2/2"));
}

TEST_F(DispatcherQueueTest, AnIdlePrefillWorkerTakesAPromptOfAnyLengthAndThenNoMore) {
  JoinPair();
  Submit(1, {.prompt_tokens = 1000});
  Submit(2, {.prompt_tokens = 10});
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1"));
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1), 992);
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D2 2/1")) << "what was cached needs no computing";
}

TEST_F(DispatcherQueueTest, WorkersOfDifferentFingerprintsAreNoPair) {
  Join(1, WorkerRole::kPrefill);
  WorkerInfo other = MakeWorker(2, WorkerRole::kDecode);
  other.fingerprint = "g";
  Join(other);
  Submit(1);
  EXPECT_THAT(Actions(), IsEmpty());
  Join(3, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D3 1/1"));
}

}  // namespace
}  // namespace baton::router
