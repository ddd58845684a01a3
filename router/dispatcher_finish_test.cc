// How jobs end: the last token and the reports behind it, stop strings, cancellations, deadlines.
#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DispatcherFinishTest : public DispatcherTest {};

TEST_F(DispatcherFinishTest, TokenZeroEndsTheJobAtPrefill) {
  JoinPair();
  Submit(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Actions();
  AdvanceMs(3);
  Token(kP, KeyOf(1), 0, 70, FinishReason::kStop);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "-D2 1/1"));
  AdvanceMs(2);
  Finished(kP, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:OK"));
  EXPECT_EQ(LastResult().finish, FinishReason::kStop);
  EXPECT_EQ(LastResult().phases.transfer_ns, 0);
  Finished(kD, KeyOf(1));
  CallEnd(kD, KeyOf(1));
  CallEnd(kP, KeyOf(1));
  EXPECT_THAT(Actions(), IsEmpty());
  ExpectNothingLeft();
}

TEST_F(DispatcherFinishTest, FinishedWithoutALastTokenIsInternal) {
  JoinPair();
  Submit(1);
  Actions();
  Finished(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "1:INTERNAL"));
  Submit(2);
  PrefillDone(KeyOf(2), 70);
  Actions();
  Finished(kD, KeyOf(2));
  EXPECT_THAT(Actions(), ElementsAre("2:INTERNAL"));
  Submit(3, {.max_tokens = 1});
  Actions();
  Finished(kP, KeyOf(3));
  EXPECT_THAT(Actions(), ElementsAre("3:INTERNAL"));
}

TEST_F(DispatcherFinishTest, AfterTheLastTokenAJobEndsWellWhateverBecomesOfItsReport) {
  options_.worker_silence_ms = 60'000;
  JoinPair();
  const auto run_to_last_token = [this](uint64_t n) {
    Submit(n);
    PrefillDone(KeyOf(n), 70);
    Token(kD, KeyOf(n), 1, 71, FinishReason::kStop);
    Actions();
  };
  run_to_last_token(1);
  CallEnd(kD, KeyOf(1), absl::InternalError("it broke"));
  EXPECT_THAT(Actions(), ElementsAre("1:OK"));
  run_to_last_token(2);
  RunMs(options_.report_wait_ms - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("-D2 2/1", "2:OK"));
  run_to_last_token(3);
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  EXPECT_THAT(Actions(), ElementsAre("3:OK"));
  EXPECT_EQ(LastResult().finish, FinishReason::kStop);
  EXPECT_EQ(LastResult().output_tokens, 2);
}

TEST_F(DispatcherFinishTest, TokensAfterTheLastAreIgnored) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Token(kD, KeyOf(1), 1, 71, FinishReason::kStop);
  Token(kD, KeyOf(1), 2, 72);
  Finished(kD, KeyOf(1));
  Actions();
  EXPECT_EQ(LastResult().output_tokens, 2);
  EXPECT_TRUE(LastResult().status.ok());
}

TEST_F(DispatcherFinishTest, AJobThatAStopStringEndsSaysHowItsKvCame) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  WorkerUpdate committed = MakeUpdate(WorkerUpdate::Kind::kKvCommitted);
  committed.report = {.read_ns = 7, .transfer_bytes = 4096, .transport = "shm"};
  dispatcher().OnWorkerUpdate(kD, KeyOf(1), committed);
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::OkStatus());
  Actions();
  EXPECT_TRUE(LastResult().status.ok());
  EXPECT_EQ(LastResult().decode, committed.report);
}

TEST_F(DispatcherFinishTest, AStopStringInTheLastTokenLetsTheReportCome) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Token(kD, KeyOf(1), 1, 71, FinishReason::kLength);
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::OkStatus());
  Finished(kD, KeyOf(1));
  Actions();
  EXPECT_TRUE(LastResult().status.ok());
  EXPECT_EQ(LastResult().decode.compute_ns, 22);
}

TEST_F(DispatcherFinishTest, PrefillAndDecodeThatDisagreeOnTheEndAreInternal) {
  JoinPair();
  Submit(1);
  Token(kD, KeyOf(1), 0, 70);
  Actions();
  Token(kP, KeyOf(1), 0, 70, FinishReason::kStop);
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "-D2 1/1", "1:INTERNAL"));
  EXPECT_EQ(LastResult().status.message(), "prefill and decode disagree on output token 0: 70 then 70 as the last");
}

TEST_F(DispatcherFinishTest, ACallThatEndsTooEarlyIsInternal) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Actions();
  CallEnd(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:INTERNAL"));
  Submit(2);
  Actions();
  CallEnd(kP, KeyOf(2));
  EXPECT_THAT(Actions(), ElementsAre("-D2 2/1", "2:INTERNAL"));
}

TEST_F(DispatcherFinishTest, CancelEndsAJobInEveryStateOnce) {
  JoinPair();
  const absl::Status why = absl::CancelledError("the client left");
  Submit(1);
  Actions();
  dispatcher().Cancel(KeyOf(1).choice_key(), why);
  dispatcher().Cancel(KeyOf(1).choice_key(), why);
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "-D2 1/1", "1:CANCELLED"));
  Submit(2);
  PrefillDone(KeyOf(2), 70);
  Actions();
  dispatcher().Cancel(KeyOf(2).choice_key(), why);
  EXPECT_THAT(Actions(), ElementsAre("-D2 2/1", "2:CANCELLED"));
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  Submit(3);
  dispatcher().Cancel(KeyOf(3).choice_key(), why);
  EXPECT_THAT(Actions(), ElementsAre("3:CANCELLED"));
  EXPECT_EQ(LastResult().attempts, 0);
}

TEST_F(DispatcherFinishTest, CancelWithOkEndsTheJobAsStopped) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Token(kD, KeyOf(1), 1, 71);
  Actions();
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::OkStatus());
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "1:OK"));
  EXPECT_EQ(LastResult().finish, FinishReason::kStop);
  EXPECT_EQ(LastResult().output_tokens, 2);
}

TEST_F(DispatcherFinishTest, DeadlinesEndQueuedAndRunningJobs) {
  options_.placing.no_worker_wait_ms = 60'000;
  Submit(1, {.deadline = clock_.Now() + 5 * kNsPerMs});
  RunMs(5);
  EXPECT_THAT(Actions(), ElementsAre("1:DEADLINE_EXCEEDED"));
  JoinPair();
  Submit(2, {.deadline = clock_.Now() + 5 * kNsPerMs});
  RunMs(4);
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D2 2/1"));
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("-P1 2/1", "-D2 2/1", "2:DEADLINE_EXCEEDED"));
  Submit(3, {.deadline = clock_.Now()});
  EXPECT_THAT(Actions(), ElementsAre("3:DEADLINE_EXCEEDED"));
}

TEST_F(DispatcherFinishTest, TheDigestIsWaitedForAfterTheLastToken) {
  JoinPair();
  Submit(1, {.max_tokens = 2, .want_kv_digest = true});
  Started(kD, KeyOf(1));
  Actions();
  Token(kD, KeyOf(1), 0, 70);
  Token(kD, KeyOf(1), 1, 71, FinishReason::kLength);
  Finished(kD, KeyOf(1));
  CallEnd(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "1:1=71"));
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Finished(kP, KeyOf(1), "abc");
  EXPECT_THAT(Actions(), ElementsAre("1:OK"));
  EXPECT_EQ(LastResult().kv_digest, "abc");
  CallEnd(kP, KeyOf(1));
  ExpectNothingLeft();
}

TEST_F(DispatcherFinishTest, ACompleteOutputIsNotHarmedByTheLossOfItsDigest) {
  JoinPair();
  Submit(1, {.want_kv_digest = true});
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Actions();
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::OkStatus());
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1"));
  CallEnd(kD, KeyOf(1), kCancelledCall);
  EXPECT_THAT(Actions(), IsEmpty());
  dispatcher().OnWorkerLost(MakeWorkerId(1), kBroken);
  EXPECT_THAT(Actions(), ElementsAre("1:OK"));
}

}  // namespace
}  // namespace baton::router
