// Failures: of calls, of workers, and of what only looks like one.
#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A job ends at its first failure, so that what it ends with can be seen. dispatcher_failover_test.cc has the others.
class DispatcherFailureTest : public DispatcherTest {
 protected:
  DispatcherFailureTest() {
    options_.max_losses = 0;
    options_.max_errors = 1;
  }
};

TEST_F(DispatcherFailureTest, AnErrorOfPrefillEndsTheJobAndNamesTheWorker) {
  JoinPair();
  Submit(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Actions();
  CallEnd(kP, KeyOf(1), kBroken);
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "1:UNAVAILABLE"));
  EXPECT_EQ(LastResult().status.message(), "prefill worker host:1: connection reset");
}

TEST_F(DispatcherFailureTest, AnErrorOfDecodeEndsTheJobAndNamesTheWorker) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Actions();
  CallEnd(kD, KeyOf(1), absl::DataLossError("digest of block 3"));
  EXPECT_THAT(Actions(), ElementsAre("1:DATA_LOSS"));
  EXPECT_EQ(LastResult().status.message(), "decode worker host:2: digest of block 3");
}

TEST_F(DispatcherFailureTest, AnErrorOfPrefillAfterItsTokenIsForDecodeToJudge) {
  JoinPair();
  Submit(1, {.max_tokens = 2});
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Actions();
  CallEnd(kP, KeyOf(1), kBroken);
  EXPECT_THAT(Actions(), IsEmpty());
  Token(kD, KeyOf(1), 1, 71, FinishReason::kLength);
  Finished(kD, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:1=71", "1:OK"));
}

TEST_F(DispatcherFailureTest, TheRootOfAFailureIsReportedNotItsEcho) {
  JoinPair();
  Submit(1);
  Actions();
  CallEnd(kP, KeyOf(1), absl::CancelledError("the reader has gone"));
  EXPECT_THAT(Actions(), IsEmpty());
  CallEnd(kD, KeyOf(1), absl::DataLossError("digest"));
  EXPECT_THAT(Actions(), ElementsAre("1:DATA_LOSS"));
  Submit(2);
  Actions();
  CallEnd(kD, KeyOf(2), absl::CancelledError("the fetch was cut"));
  CallEnd(kP, KeyOf(2), kBroken);
  EXPECT_THAT(Actions(), ElementsAre("2:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("prefill worker host:1: connection reset"));
}

TEST_F(DispatcherFailureTest, AnEchoWithoutARootEndsTheJobAfterAMoment) {
  JoinPair();
  Submit(1);
  Actions();
  CallEnd(kP, KeyOf(1), absl::CancelledError("shutting down"));
  RunMs(options_.echo_wait_ms - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1", "1:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("prefill worker host:1: shutting down"));
}

TEST_F(DispatcherFailureTest, AFetchThatBrokeBecausePrefillRefusedIsNoFailure) {
  JoinPair();
  Submit(1);
  Started(kD, KeyOf(1));
  Actions();
  CallEnd(kD, KeyOf(1), absl::NotFoundError("no such job"));
  Refuse(kP, KeyOf(1));
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(20);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2", "D2 1/2"));
}

TEST_F(DispatcherFailureTest, ADecodeWorkersOutageIsNamedWhenPrefillOnlyEchoesIt) {
  JoinPair();
  Submit(1);
  Started(kD, KeyOf(1));
  Actions();
  CallEnd(kD, KeyOf(1), kBroken);
  CallEnd(kP, KeyOf(1), absl::CancelledError("the reader has gone"));
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_EQ(LastResult().status.message(), "decode worker host:2: connection reset");
}

TEST_F(DispatcherFailureTest, WhatAWorkerSaidOfAJobBeforeItLeftIsTheReasonAndNotThatItLeft) {
  JoinPair();
  Submit(1);
  Submit(2);
  Actions();
  CallEnd(kD, KeyOf(1), absl::UnavailableError("cut by a drain"));
  CallEnd(kP, KeyOf(2), absl::CancelledError("the reader has gone"));
  dispatcher().OnWorkerLost(MakeWorkerId(2), absl::UnavailableError("the worker left"));
  EXPECT_THAT(Actions(), ElementsAre("-P1 1/1", "1:UNAVAILABLE", "2:UNAVAILABLE"));
  ASSERT_EQ(results_.size(), 2u);
  EXPECT_EQ(results_[0].status.message(), "decode worker host:2: cut by a drain");
  EXPECT_THAT(results_[1].status.message(), HasSubstr("the worker left")) << "the other worker's word may echo that";
}

TEST_F(DispatcherFailureTest, PrefillThatFinishesWellEndsTheWaitForItsWord) {
  JoinPair();
  Submit(1);
  Started(kD, KeyOf(1));
  Actions();
  CallEnd(kD, KeyOf(1), kBroken);
  Token(kP, KeyOf(1), 0, 70);
  EXPECT_THAT(Actions(), ElementsAre("1:0=70"));
  Finished(kP, KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE"));
  EXPECT_EQ(LastResult().status.message(), "decode worker host:2: connection reset");
}

TEST_F(DispatcherFailureTest, AnEchoBeforeARefusalStillRequeues) {
  JoinPair();
  Submit(1);
  Actions();
  CallEnd(kP, KeyOf(1), absl::CancelledError("nobody fetches"));
  Refuse(kD, KeyOf(1));
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_EQ(dispatcher().queued_jobs(), 1);
  RunMs(20);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2", "D2 1/2"));
}

TEST_F(DispatcherFailureTest, ALostDecodeWorkerEndsItsJobs) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Submit(2);
  Actions();
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  EXPECT_THAT(Actions(), ElementsAre("1:UNAVAILABLE", "-P1 2/1", "2:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("host:2"));
  EXPECT_EQ(dispatcher().open_calls(), 1) << "the lost worker's calls are over, the other's is cancelled";
  EXPECT_FALSE(dispatcher().assigned().contains(MakeWorkerId(2)));
  CallEnd(kP, KeyOf(2), kCancelledCall);
  ExpectNothingLeft();
}

TEST_F(DispatcherFailureTest, ALostPrefillWorkerEndsJobsWhoseKvIsNotCommitted) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Committed(KeyOf(1));
  Submit(2);
  PrefillDone(KeyOf(2), 80);
  Submit(3);
  Actions();
  dispatcher().OnWorkerLost(MakeWorkerId(1), kBroken);
  EXPECT_THAT(Actions(), ElementsAre("-D2 2/1", "2:UNAVAILABLE", "-D2 3/1", "3:UNAVAILABLE"));
  Token(kD, KeyOf(1), 1, 71);
  EXPECT_THAT(Actions(), ElementsAre("1:1=71"));
}

TEST_F(DispatcherFailureTest, APrefillWorkerThatLeavesAfterItsDrainLeavesItsPromptsToDecode) {
  JoinPair();
  Submit(1, {.max_tokens = 2});
  PrefillDone(KeyOf(1), 70);
  Submit(2);
  Actions();
  dispatcher().OnWorkerLoad(MakeWorkerId(1), {.state = WorkerState::kDraining});
  dispatcher().OnWorkerLost(MakeWorkerId(1), absl::UnavailableError("it has left"));
  EXPECT_THAT(Actions(), ElementsAre("-D2 2/1", "2:UNAVAILABLE"));
  CallEnd(kD, KeyOf(2), kCancelledCall);
  Token(kD, KeyOf(1), 0, 70);
  DecodeDone(KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:1=71", "1:OK"));
  ExpectNothingLeft();
}

TEST_F(DispatcherFailureTest, ASilentWorkerIsLost) {
  JoinPair();
  Submit(1);
  Actions();
  RunMs(3000);
  dispatcher().OnWorkerLoad(MakeWorkerId(1), {});
  RunMs(1999);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("end2", "-P1 1/1", "1:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("host:2 was lost: not heard for 5000 ms"));
  EXPECT_EQ(dispatcher().registry().workers().size(), 1u);
}

TEST_F(DispatcherFailureTest, WhatALostWorkerStillSaysIsIgnored) {
  JoinPair();
  Submit(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  CallEnd(kP, KeyOf(1), kCancelledCall);
  Actions();
  Token(kD, KeyOf(1), 0, 70);
  Finished(kD, KeyOf(1));
  CallEnd(kD, KeyOf(1), kBroken);
  dispatcher().OnWorkerLoad(MakeWorkerId(2), {});
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_EQ(dispatcher().registry().workers().size(), 1u);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace baton::router
