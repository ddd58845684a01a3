// A job whose client does not read waits without a worker.
#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/refusal_reason.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DispatcherPausesTest : public DispatcherTest {
 protected:
  // The tests last longer than a worker may be silent.
  DispatcherPausesTest() { options_.worker_silence_ms = 2 * kMaxPausedMs; }

  // Outputs 0 to 2 of job 1 are there.
  void Stream(const JobShape& shape = {}) {
    JoinPair();
    Submit(1, shape);
    PrefillDone(KeyOf(1), 70);
    Committed(KeyOf(1));
    for (int32_t i = 1; i < 3; ++i) Token(kD, KeyOf(1), i, 70 + i);
    Actions();
  }
  void Pause() { dispatcher().Pause(KeyOf(1).choice_key()); }
  void Continue() { dispatcher().Continue(KeyOf(1).choice_key()); }
  void GoOn() {
    const JobKey second = KeyOf(1, 2);
    PrefillDone(second, 73, 3);
    Committed(second);
    Token(kD, second, 4, 74, FinishReason::kStop);
    Finished(kD, second);
    CallEnd(kD, second);
  }
};

TEST_F(DispatcherPausesTest, APausedJobHoldsNoWorkerAndGoesOnAtItsNextOutput) {
  Stream();
  Pause();
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1"));
  EXPECT_EQ(dispatcher().running_jobs(), 0);
  EXPECT_EQ(dispatcher().queued_jobs(), 0);
  EXPECT_THAT(dispatcher().paused(), ElementsAre(KeyOf(1).choice_key()));
  // What was on its way belongs to the attempt that is over.
  Token(kD, KeyOf(1), 3, 73);
  CallEnd(kD, KeyOf(1), kCancelledCall);
  EXPECT_EQ(dispatcher().open_calls(), 0);
  RunMs(10'000);
  EXPECT_THAT(Actions(), IsEmpty());
  Continue();
  EXPECT_THAT(Actions(), ElementsAre("P1 1/2 after 3", "D2 1/2 after 3"));
  GoOn();
  EXPECT_THAT(Actions(), ElementsAre("1:3=73", "1:4=74", "1:OK"));
  EXPECT_EQ(LastResult().pauses, 1);
  EXPECT_EQ(LastResult().failovers, 0) << "nobody has failed";
  EXPECT_EQ(LastResult().attempts, 2);
  ASSERT_EQ(LastResult().given_up.size(), 1u);
  EXPECT_EQ(LastResult().given_up[0].why, "its client does not read");
  ExpectNothingLeft();
}

TEST_F(DispatcherPausesTest, AnotherJobGetsThePlaceOfAPausedOne) {
  options_.max_running_jobs = 1;
  Stream();
  Submit(2);
  EXPECT_THAT(Actions(), IsEmpty());
  Pause();
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1"));
  CallEnd(kD, KeyOf(1), kCancelledCall);
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D2 2/1"));
}

TEST_F(DispatcherPausesTest, APausedJobIsCutOnceItsClientHasNotReadForTooLong) {
  Stream();
  Pause();
  CallEnd(kD, KeyOf(1), kCancelledCall);
  Actions();
  RunMs(kMaxPausedMs - 1);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("1:RESOURCE_EXHAUSTED"));
  EXPECT_EQ(GetRefusalReason(LastResult().status), RefusalReason::kSlowReader);
  EXPECT_EQ(LastResult().output_tokens, 3);
  ExpectNothingLeft();
  EXPECT_THAT(dispatcher().paused(), IsEmpty());
  Continue();
  EXPECT_THAT(Actions(), IsEmpty());
}

TEST_F(DispatcherPausesTest, APausedJobEndsAtItsDeadline) {
  Stream({.deadline = After(clock_.Now(), 1'000)});
  Pause();
  CallEnd(kD, KeyOf(1), kCancelledCall);
  Actions();
  RunMs(1'000);
  EXPECT_THAT(Actions(), ElementsAre("1:DEADLINE_EXCEEDED"));
}

TEST_F(DispatcherPausesTest, AClientThatLeavesEndsItsPausedJob) {
  Stream();
  Pause();
  CallEnd(kD, KeyOf(1), kCancelledCall);
  Actions();
  dispatcher().Cancel(KeyOf(1).choice_key(), absl::CancelledError("the client left"));
  EXPECT_THAT(Actions(), ElementsAre("1:CANCELLED"));
  EXPECT_THAT(dispatcher().paused(), IsEmpty());
  ExpectNothingLeft();
}

TEST_F(DispatcherPausesTest, TheLossOfAllWorkersDoesNotTouchAPausedJobWhichWaitsForOthersOnceItGoesOn) {
  Stream();
  Pause();
  CallEnd(kD, KeyOf(1), kCancelledCall);
  dispatcher().OnWorkerLost(MakeWorkerId(1), kBroken);
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1"));
  RunMs(20'000);
  Continue();
  RunMs(1'000);
  EXPECT_THAT(Actions(), IsEmpty());
  Join(3, WorkerRole::kPrefill);
  Join(4, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("P3 1/2 after 3", "D4 1/2 after 3"));
}

TEST_F(DispatcherPausesTest, OnlyAJobThatStreamsIsPaused) {
  JoinPair();
  Pause();
  Submit(1);
  Pause();
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1"));
  Continue();
  PrefillDone(KeyOf(1), 70);
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 1, 71, FinishReason::kStop);
  Pause();
  EXPECT_THAT(Actions(), ElementsAre("1:0=70", "1:1=71")) << "it is about to end";
  EXPECT_THAT(dispatcher().paused(), IsEmpty());
}

TEST_F(DispatcherPausesTest, AJobWhoseDigestIsAwaitedIsPausedWhenItHasCome) {
  JoinPair();
  Submit(1, {.want_kv_digest = true});
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Token(kP, KeyOf(1), 0, 70);
  Committed(KeyOf(1));
  Actions();
  Pause();
  EXPECT_THAT(Actions(), IsEmpty());
  Finished(kP, KeyOf(1), "digest");
  CallEnd(kP, KeyOf(1));
  Pause();
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1"));
}

TEST_F(DispatcherPausesTest, AJobThatNoPrefillWorkerWouldTakeAgainIsNotPaused) {
  WorkerInfo small = MakeWorker(1, WorkerRole::kPrefill);
  small.total_blocks = small.PromptBlocks(2 * kBlockTokens);
  Join(small);
  Join(2, WorkerRole::kDecode);
  Submit(1, {.prompt_tokens = 2 * kBlockTokens - 1});
  PrefillDone(KeyOf(1), 70);
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 1, 71);
  Actions();
  Pause();
  EXPECT_THAT(Actions(), IsEmpty());
  Join(3, WorkerRole::kPrefill);
  Pause();
  EXPECT_THAT(Actions(), ElementsAre("-D2 1/1"));
}

TEST_F(DispatcherPausesTest, NoMoreArePausedThanMayRun) {
  options_.max_running_jobs = 2;
  Stream();
  Pause();
  CallEnd(kD, KeyOf(1), kCancelledCall);
  for (const uint64_t n : {2, 3}) {
    Submit(n);
    PrefillDone(KeyOf(n), 70);
    Committed(KeyOf(n));
    dispatcher().Pause(KeyOf(n).choice_key());
  }
  EXPECT_THAT(dispatcher().paused(), ElementsAre(KeyOf(1).choice_key(), KeyOf(2).choice_key()));
  EXPECT_EQ(dispatcher().running_jobs(), 1);
}

}  // namespace
}  // namespace baton::router
