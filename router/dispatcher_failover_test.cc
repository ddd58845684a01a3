// Failover: a job whose attempt failed goes on elsewhere, at its next output.
#include <map>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/refusal_reason.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DispatcherFailoverTest : public DispatcherTest {
 protected:
  // Prefill worker 1 and decode workers 2 and 3. The first job goes to 2.
  void JoinTwoDecoders() {
    JoinPair();
    Join(3, WorkerRole::kDecode);
  }
  void Lose(uint64_t n) { dispatcher().OnWorkerLost(MakeWorkerId(n), kBroken); }
  // The job's outputs from 0 to `count` - 1 are 70, 71 and so on.
  void Stream(const JobKey& key, int32_t count) {
    PrefillDone(key, 70);
    Committed(key);
    for (int32_t i = 1; i < count; ++i) Token(kD, key, i, 70 + i);
  }
  // What the attempts under way are asked to go on from.
  std::shared_ptr<const JobSpec> StartedJob() {
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      if (const auto* start = std::get_if<StartPrefill>(&action)) return start->job;
    }
    ADD_FAILURE() << "no prefill has started";
    return MakeJob(0);
  }
};

TEST_F(DispatcherFailoverTest, AJobGoesOnAtItsNextOutputWhenItsDecodeWorkerIsLost) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 3);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "1:0=70", "1:1=71", "1:2=72"));
  Lose(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2 after 3", "D3 1/2 after 3"));
  const JobKey second = KeyOf(1, 2);
  Started(kD, second);
  Started(kP, second);
  Token(kP, second, 3, 73);
  Finished(kP, second);
  CallEnd(kP, second);
  Committed(second);
  Token(kD, second, 3, 73);
  Token(kD, second, 4, 74, FinishReason::kStop);
  Finished(kD, second);
  CallEnd(kD, second);
  EXPECT_THAT(Actions(), ElementsAre("1:3=73", "1:4=74", "1:OK"));
  EXPECT_EQ(LastResult().output_tokens, 5);
  EXPECT_EQ(LastResult().prompt_tokens, 40);
  EXPECT_EQ(LastResult().attempts, 2);
  EXPECT_EQ(LastResult().failovers, 1);
  ASSERT_EQ(LastResult().given_up.size(), 1u);
  EXPECT_THAT(LastResult().given_up[0].why, HasSubstr("host:2 was lost"));
  ExpectNothingLeft();
}

// Half a second is left of the two within which failover begins.
TEST_F(DispatcherFailoverTest, ByDefaultAJobGoesOnASecondAndAHalfAfterItsDecodeWorkerFellSilent) {
  options_ = {};
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 3);
  Actions();
  RunMs(1'000);
  for (const uint64_t n : {1, 3}) dispatcher().OnWorkerLoad(MakeWorkerId(n), {});
  RunMs(499);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("end2", "P1 1/2 after 3", "D3 1/2 after 3"));
}

TEST_F(DispatcherFailoverTest, AJobThatFitsOnlyAWorkerThatDrainedWaitsForItsSuccessor) {
  options_.worker_silence_ms = 1'000'000;
  JoinPair();
  WorkerInfo small = MakeWorker(3, WorkerRole::kDecode);
  small.total_blocks = 10;
  Join(small);
  Submit(1, {.prompt_tokens = 1000});
  Stream(KeyOf(1), 2);
  Actions();
  dispatcher().OnWorkerLoad(MakeWorkerId(2), {.state = WorkerState::kDraining});
  dispatcher().OnWorkerLost(MakeWorkerId(2), absl::UnavailableError("the worker left"));
  RunMs(50'000);
  EXPECT_THAT(Actions(), IsEmpty());
  Join(4, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2 after 2", "D4 1/2 after 2"));
}

TEST_F(DispatcherFailoverTest, AJobThatFitsNobodyAnyMoreEndsAfterTheTimeInWhichWorkersReturn) {
  options_.worker_silence_ms = 1'000'000;
  JoinPair();
  WorkerInfo small = MakeWorker(3, WorkerRole::kDecode);
  small.total_blocks = 10;
  Join(small);
  Submit(1, {.prompt_tokens = 1000});
  Stream(KeyOf(1), 2);
  Actions();
  Lose(2);
  RunMs(59'999);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("after 2 output tokens no other worker"));
  ExpectNothingLeft();
}

TEST_F(DispatcherFailoverTest, TheNextAttemptTakesThePromptAndAllOutputs) {
  JoinTwoDecoders();
  Submit(1, {.prompt_tokens = 3});
  Stream(KeyOf(1), 2);
  Actions();
  Lose(2);
  const std::shared_ptr<const JobSpec> job = StartedJob();
  EXPECT_THAT(job->prompt, ElementsAre(7, 7, 7, 70, 71));
  EXPECT_EQ(job->emitted, 2);
  EXPECT_EQ(job->sampling.max_tokens, 8) << "outputs that were emitted count";
}

TEST_F(DispatcherFailoverTest, AJobWithoutAnOutputBeginsAnew) {
  JoinTwoDecoders();
  Submit(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1), 16);
  Actions();
  Lose(2);
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "P1 1/2", "D3 1/2"));
}

TEST_F(DispatcherFailoverTest, AFailedJobWaitsForItsWorkerToComeBack) {
  JoinPair();
  Submit(1);
  Stream(KeyOf(1), 2);
  Actions();
  Lose(2);
  RunMs(30'000);
  dispatcher().OnWorkerLoad(MakeWorkerId(1), {});
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
  Join(1, WorkerRole::kPrefill);
  Join(4, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ::testing::Contains("D4 1/2 after 2"));
}

TEST_F(DispatcherFailoverTest, TheLossOfPrefillBeforeTheCommitMovesTheJobAndAfterItDoesNot) {
  JoinTwoDecoders();
  Join(4, WorkerRole::kPrefill);
  Submit(1);
  Submit(2);
  const auto first = Actions();
  EXPECT_THAT(first, ElementsAre("P1 1/1", "D2 1/1", "P4 2/1", "D3 2/1"));
  Stream(KeyOf(1), 2);
  PrefillDone(KeyOf(2), 80);
  Actions();
  Lose(1);
  EXPECT_THAT(Actions(), IsEmpty()) << "its decode worker has the KV";
  Lose(4);
  EXPECT_THAT(Actions(), ElementsAre("-D3 2/1"));
  Join(5, WorkerRole::kPrefill);
  EXPECT_THAT(Actions(), ::testing::Contains("P5 2/2 after 1"));
}

TEST_F(DispatcherFailoverTest, AHandOffThatFailedIsTriedAgainAndNotForEver) {
  JoinPair();
  Submit(1);
  for (uint32_t attempt = 1; attempt <= static_cast<uint32_t>(options_.max_errors); ++attempt) {
    EXPECT_EQ(dispatcher().running_jobs(), 1);
    const JobKey key = KeyOf(1, attempt);
    Started(kD, key);
    Started(kP, key);
    CallEnd(kD, key, absl::DataLossError("a block stayed damaged"));
    CallEnd(kP, key, kCancelledCall);
  }
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1", "-P1 1/1", "P1 1/2", "D2 1/2", "-P1 1/2", "P1 1/3", "D2 1/3",
                                     "-P1 1/3", "1:DATA_LOSS"));
  EXPECT_EQ(LastResult().status.message(), "decode worker host:2: a block stayed damaged");
  ExpectNothingLeft();
}

TEST_F(DispatcherFailoverTest, AJobThatGetsOnOutlivesAnyNumberOfWorkers) {
  JoinPair();
  Submit(1, {.max_tokens = 100});
  for (int32_t index = 0; index < 3 * options_.max_losses; ++index) {
    const JobKey key = KeyOf(1, static_cast<uint32_t>(index) + 1);
    const uint64_t decoder = 2 + static_cast<uint64_t>(index);
    Started(kD, key);
    Started(kP, key);
    Token(kP, key, 2 * index, 70);
    Finished(kP, key);
    CallEnd(kP, key);
    Committed(key);
    Token(kD, key, 2 * index + 1, 71);
    Lose(decoder);
    EXPECT_THAT(results_, IsEmpty());
    Join(decoder + 1, WorkerRole::kDecode);
  }
  EXPECT_EQ(dispatcher().running_jobs(), 1);
}

TEST_F(DispatcherFailoverTest, AJobWhoseDecodeWorkersDieInTheirFirstStepEndsAlthoughEachAttemptGivesAnOutput) {
  JoinPair();
  Submit(1, {.max_tokens = 100});
  for (int32_t index = 0; index < options_.max_losses; ++index) {
    EXPECT_EQ(dispatcher().running_jobs(), 1);
    const JobKey key = KeyOf(1, static_cast<uint32_t>(index) + 1);
    const uint64_t decoder = 2 + static_cast<uint64_t>(index);
    Started(kD, key);
    Started(kP, key);
    Token(kP, key, index, 70);
    Finished(kP, key);
    CallEnd(kP, key);
    Committed(key);
    Lose(decoder);
    Join(decoder + 1, WorkerRole::kDecode);
  }
  Actions();
  EXPECT_TRUE(absl::IsUnavailable(LastResult().status));
  ExpectNothingLeft();
}

TEST_F(DispatcherFailoverTest, AJobWhoseWorkersDieWhileTheyComputeForItEndsAtLast) {
  Join(1, WorkerRole::kDecode);
  Join(100, WorkerRole::kPrefill);
  Submit(1);
  for (int32_t loss = 0; loss < options_.max_losses; ++loss) {
    const uint64_t prefill = 100 + static_cast<uint64_t>(loss);
    EXPECT_EQ(dispatcher().running_jobs(), 1);
    Started(kD, KeyOf(1, static_cast<uint32_t>(loss) + 1));
    Started(kP, KeyOf(1, static_cast<uint32_t>(loss) + 1));
    Lose(prefill);
    CallEnd(kD, KeyOf(1, static_cast<uint32_t>(loss) + 1), kCancelledCall);
    Join(prefill + 1, WorkerRole::kPrefill);
  }
  Actions();
  EXPECT_TRUE(absl::IsUnavailable(LastResult().status));
  ExpectNothingLeft();
}

TEST_F(DispatcherFailoverTest, ALossBeforeTheWorkerBeganWithTheJobCountsForNothing) {
  Join(1, WorkerRole::kPrefill);
  Join(100, WorkerRole::kDecode);
  Submit(1);
  for (uint64_t loss = 0; loss < 3 * static_cast<uint64_t>(options_.max_losses); ++loss) {
    const JobKey key = KeyOf(1, static_cast<uint32_t>(loss) + 1);
    Started(kD, key);
    // It dies with a reservation, or with a prompt on its way.
    if (loss % 2 == 0) Started(kP, key);
    Lose(100 + loss);
    CallEnd(kP, key, kCancelledCall);
    Join(101 + loss, WorkerRole::kDecode);
    EXPECT_THAT(results_, IsEmpty());
  }
  EXPECT_EQ(dispatcher().running_jobs(), 1);
}

TEST_F(DispatcherFailoverTest, AnErrorOfTheRequestItselfEndsIt) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 2);
  Actions();
  CallEnd(kD, KeyOf(1), absl::InternalError("a bug"));
  EXPECT_THAT(Actions(), ElementsAre("1:INTERNAL"));
}

TEST_F(DispatcherFailoverTest, OnlyWorkersOfTheSameFingerprintGoOn) {
  JoinPair();
  WorkerInfo prefill = MakeWorker(3, WorkerRole::kPrefill);
  WorkerInfo decode = MakeWorker(4, WorkerRole::kDecode);
  prefill.fingerprint = decode.fingerprint = "g";
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1"));
  Join(prefill);
  Join(decode);
  Stream(KeyOf(1), 2);
  Actions();
  Lose(2);
  EXPECT_THAT(Actions(), IsEmpty());
  for (int64_t ms = 0; ms < options_.placing.worker_return_ms; ms += 1'000) {
    EXPECT_THAT(results_, IsEmpty());
    RunMs(1'000);
    for (const uint64_t worker : {1, 3, 4}) dispatcher().OnWorkerLoad(MakeWorkerId(worker), {});
    Actions();
  }
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(LastResult().status)) << LastResult().status;
  EXPECT_THAT(LastResult().status.message(),
              ::testing::AllOf(HasSubstr("host:2 was lost"), HasSubstr("after 2 output tokens")));
}

TEST_F(DispatcherFailoverTest, AJobThatADrainHasCutWaitsForTheNextWorker) {
  JoinPair();
  Submit(1);
  Stream(KeyOf(1), 2);
  dispatcher().OnWorkerLoad(MakeWorkerId(2), {.state = WorkerState::kDraining});
  CallEnd(kD, KeyOf(1), absl::UnavailableError("the time to drain is over"));
  Lose(2);
  Actions();
  // A new request is told after no_worker_wait_ms that nobody serves; this one's client has outputs already.
  for (int64_t ms = 0; ms < options_.placing.worker_return_ms - 1'000; ms += 1'000) {
    RunMs(1'000);
    dispatcher().OnWorkerLoad(MakeWorkerId(1), {});
    EXPECT_THAT(Actions(), IsEmpty());
  }
  Join(3, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2 after 2", "D3 1/2 after 2"));
}

TEST_F(DispatcherFailoverTest, AJobThatADrainHasCutWaitsNoLongerThanForAWorkerThatWasLost) {
  JoinPair();
  Submit(1);
  Stream(KeyOf(1), 2);
  dispatcher().OnWorkerLoad(MakeWorkerId(2), {.state = WorkerState::kDraining});
  CallEnd(kD, KeyOf(1), absl::UnavailableError("the time to drain is over"));
  Lose(2);
  Actions();
  for (int64_t ms = 0; ms <= options_.placing.worker_return_ms; ms += 1'000) {
    RunMs(1'000);
    dispatcher().OnWorkerLoad(MakeWorkerId(1), {});
  }
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("after 2 output tokens"));
}

TEST_F(DispatcherFailoverTest, AWorkerOfAFormerVersionGetsNoJobThatHasOutputs) {
  JoinTwoDecoders();
  WorkerInfo former = MakeWorker(4, WorkerRole::kDecode);
  former.resumes_jobs = false;
  Join(former);
  Submit(1);
  Stream(KeyOf(1), 2);
  Actions();
  Lose(2);
  Lose(3);
  EXPECT_THAT(Actions(), ::testing::Contains("P1 1/2 after 2"));
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
  Submit(2);
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D4 2/1"));
}

TEST_F(DispatcherFailoverTest, WithOneOutputLeftThePrefillWorkerGivesIt) {
  JoinTwoDecoders();
  Submit(1, {.max_tokens = 3});
  Stream(KeyOf(1), 2);
  Actions();
  Lose(2);
  EXPECT_THAT(Actions(), ElementsAre("solo1 1/2 after 2"));
  Started(kP, KeyOf(1, 2));
  Token(kP, KeyOf(1, 2), 2, 72, FinishReason::kLength);
  Finished(kP, KeyOf(1, 2));
  EXPECT_THAT(Actions(), ElementsAre("1:2=72", "1:OK"));
}

TEST_F(DispatcherFailoverTest, AnAttemptThatRepeatsWhatTheClientHasIsWrong) {
  JoinTwoDecoders();
  Submit(1);
  Stream(KeyOf(1), 2);
  Lose(2);
  Actions();
  Started(kD, KeyOf(1, 2));
  Started(kP, KeyOf(1, 2));
  Token(kP, KeyOf(1, 2), 1, 71);
  EXPECT_THAT(Actions(), ::testing::Contains("1:INTERNAL"));
}

TEST_F(DispatcherFailoverTest, AStopOrACancellationBetweenTwoAttemptsEndsTheJob) {
  JoinPair();
  Submit(1);
  Submit(2);
  Stream(KeyOf(1), 2);
  Stream(KeyOf(2), 2);
  Lose(2);
  Actions();
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::OkStatus());
  dispatcher().Cancel(KeyOf(2).choice_key(), absl::CancelledError("the client left"));
  EXPECT_THAT(Actions(), ElementsAre("1:OK", "2:CANCELLED"));
  EXPECT_EQ(results_[0].finish, FinishReason::kStop);
  ExpectNothingLeft();
}

TEST_F(DispatcherFailoverTest, ThePauseOfAFailoverIsDecodeAndThePhasesAddUp) {
  JoinTwoDecoders();
  const TimeNs start = clock_.Now();
  Submit(1);
  AdvanceMs(5);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1), 16);
  AdvanceMs(50);
  Token(kP, KeyOf(1), 0, 70);
  AdvanceMs(4);
  Committed(KeyOf(1));
  AdvanceMs(30);
  Lose(2);
  AdvanceMs(100);
  Started(kD, KeyOf(1, 2));
  Started(kP, KeyOf(1, 2), 32);
  Token(kP, KeyOf(1, 2), 1, 71, FinishReason::kStop);
  Finished(kP, KeyOf(1, 2), 20 * kNsPerMs);
  Actions();
  const PhaseTimes& phases = LastResult().phases;
  EXPECT_EQ(phases.queue_ns, 0);
  EXPECT_EQ(phases.admission_ns, 5 * kNsPerMs);
  EXPECT_EQ(phases.prefill_ns, 50 * kNsPerMs);
  EXPECT_EQ(phases.transfer_ns, 4 * kNsPerMs);
  EXPECT_EQ(phases.decode_ns, 130 * kNsPerMs);
  EXPECT_EQ(start + 189 * kNsPerMs, clock_.Now());
  EXPECT_EQ(LastResult().cached_tokens, 16) << "those of the client's prompt";
}

TEST_F(DispatcherFailoverTest, ADigestThatIsKnownIsKept) {
  JoinTwoDecoders();
  Submit(1, {.want_kv_digest = true});
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Finished(kP, KeyOf(1), "abc");
  CallEnd(kP, KeyOf(1));
  Lose(2);
  Actions();
  Started(kD, KeyOf(1, 2));
  Started(kP, KeyOf(1, 2));
  Token(kP, KeyOf(1, 2), 1, 71, FinishReason::kStop);
  Finished(kP, KeyOf(1, 2));
  EXPECT_THAT(Actions(), ::testing::Contains("1:OK"));
  EXPECT_EQ(LastResult().kv_digest, "abc");
}

// Prefill workers 1 and 4, decode workers 2, 3 and 5; a fault kills the worker that computes for the jobs named.
class DispatcherFaultTest : public DispatcherFailoverTest {
 protected:
  void JoinAll() {
    JoinTwoDecoders();
    Join(4, WorkerRole::kPrefill);
    Join(5, WorkerRole::kDecode);
  }
  void Fault(uint64_t worker, std::vector<JobKey> at_work) {
    dispatcher().OnWorkerFault(MakeWorkerId(worker), {.signal = 11, .at_work = std::move(at_work)});
  }
  void SubmitRequest(uint64_t n) { Submit(n, {.prompt_tokens = static_cast<int>(40 + n), .max_tokens = 50}); }
  // At which decode worker the job's attempt runs.
  uint64_t DecodeWorkerOf(const JobKey& key) {
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      if (const auto* start = std::get_if<StartDecode>(&action); start != nullptr && start->key == key) {
        alone_outputs_ = start->job->alone_outputs;
        return start->worker.low;
      }
    }
    ADD_FAILURE() << key.ToString() << " has not started";
    return 0;
  }
  // DecodeWorkerOf notes here what the attempt that it has found was asked for.
  int32_t alone_outputs_ = -1;
};

TEST_F(DispatcherFaultTest, AJobOfTheFailedStepGoesOnInStepsOfItsOwnAndABystanderAsBefore) {
  JoinPair();
  SubmitRequest(1);
  SubmitRequest(2);
  Stream(KeyOf(1), 2);
  Stream(KeyOf(2), 2);
  Actions();
  Fault(2, {KeyOf(1)});
  Join(3, WorkerRole::kDecode);
  std::map<uint64_t, int32_t> alone_outputs;
  for (const DispatchAction& action : dispatcher().TakeActions()) {
    if (const auto* start = std::get_if<StartDecode>(&action)) {
      alone_outputs[start->key.job.low] = start->job->alone_outputs;
    }
  }
  EXPECT_EQ(alone_outputs, (std::map<uint64_t, int32_t>{{1, 2}, {2, 0}}));
  EXPECT_EQ(dispatcher().memberships().losses[static_cast<size_t>(WorkerRole::kDecode)]
                                             [static_cast<size_t>(LossReason::kFault)],
            1);
}

TEST_F(DispatcherFaultTest, ARequestThatKillsItsDecodeWorkersKillsTwo) {
  JoinAll();
  SubmitRequest(1);
  Stream(KeyOf(1), 2);
  Fault(DecodeWorkerOf(KeyOf(1)), {KeyOf(1), KeyOf(9)});
  const JobKey second = KeyOf(1, 2);
  const uint64_t worker = DecodeWorkerOf(second);
  Started(kD, second);
  Started(kP, second);
  Token(kP, second, 2, 72);
  Finished(kP, second);
  CallEnd(kP, second);
  Committed(second);
  Actions();
  Fault(worker, {second});
  EXPECT_THAT(Actions(), ElementsAre("1:INTERNAL"));
  EXPECT_EQ(GetRefusalReason(LastResult().status), RefusalReason::kPoisoned);
  EXPECT_THAT(std::string(LastResult().status.message()), HasSubstr("SIGSEGV"));
  ExpectNothingLeft();
  const absl::Status again = dispatcher().Submit(MakeJob(2, {.prompt_tokens = 41, .max_tokens = 50}));
  EXPECT_EQ(again.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(GetRefusalReason(again), RefusalReason::kPoisoned);
  SubmitRequest(3);
  EXPECT_THAT(Actions(), ::testing::Contains(HasSubstr(" 3/1")));
}

TEST_F(DispatcherFaultTest, ARequestThatKillsItsPrefillWorkersKillsTwo) {
  JoinAll();
  Join(6, WorkerRole::kPrefill);
  SubmitRequest(1);
  for (uint32_t attempt = 1; attempt <= 2; ++attempt) {
    const JobKey key = KeyOf(1, attempt);
    uint64_t prefill = 0;
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      if (const auto* start = std::get_if<StartPrefill>(&action)) prefill = start->worker.low;
    }
    Started(kD, key);
    Started(kP, key);
    Fault(prefill, {key});
  }
  EXPECT_THAT(Actions(), ::testing::Contains("1:INTERNAL"));
  EXPECT_EQ(GetRefusalReason(LastResult().status), RefusalReason::kPoisoned);
}

TEST_F(DispatcherFaultTest, AJobThatIsInManyFailedStepsWithOthersIsNeverRefused) {
  JoinPair();
  SubmitRequest(1);
  for (uint64_t n = 1; n <= 20; ++n) {
    const JobKey key = KeyOf(1, static_cast<uint32_t>(n));
    Started(kD, key);
    Started(kP, key);
    Fault(1 + n, {key, KeyOf(99)});
    CallEnd(kP, key, kCancelledCall);
    Join(2 + n, WorkerRole::kDecode);
    EXPECT_EQ(DecodeWorkerOf(KeyOf(1, static_cast<uint32_t>(n + 1))), 2 + n);
    EXPECT_EQ(alone_outputs_, n == 1 ? 2 : 50);
  }
}

TEST_F(DispatcherFaultTest, AFaultOutsideOfAnyStepCountsAsALossOfUnknownCause) {
  options_.max_losses = 2;
  Join(1, WorkerRole::kPrefill);
  Join(99, WorkerRole::kDecode);
  SubmitRequest(1);
  for (uint64_t n = 1; n <= 2; ++n) {
    const JobKey key = KeyOf(1, static_cast<uint32_t>(n));
    Started(kD, key);
    Started(kP, key);
    Actions();
    Fault(n, {});
    Join(n + 1, WorkerRole::kPrefill);
  }
  EXPECT_THAT(Actions(), ::testing::Contains("1:UNAVAILABLE"));
}

}  // namespace
}  // namespace baton::router
