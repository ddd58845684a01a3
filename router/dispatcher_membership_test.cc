// Memberships: who is lost and told so, who joins anew, and what late words and ends of streams do.
#include "common/limits.h"
#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A job ends with its worker, so that these tests see what it ended with.
class DispatcherMembershipTest : public DispatcherTest {
 protected:
  DispatcherMembershipTest() { options_.max_losses = 0; }

  // The process of worker `n` joins again, as worker `as`.
  static WorkerInfo Again(uint64_t n, uint64_t as, uint64_t resumes = 0) {
    WorkerInfo info = MakeWorker(as, WorkerRole::kDecode);
    info.incarnation = MakeIncarnation(n);
    info.target = "host:" + std::to_string(n);
    if (resumes != 0) info.resumes = MakeWorkerId(resumes);
    return info;
  }
  void Speak(uint64_t n, const WorkerLoad& load = {}) { dispatcher().OnWorkerLoad(MakeWorkerId(n), load); }
  // All of `workers` speak every 100 ms.
  void RunSpeaking(int64_t ms, std::initializer_list<uint64_t> workers) {
    for (int64_t passed = 0; passed < ms; passed += 100) {
      RunMs(100);
      for (const uint64_t worker : workers) Speak(worker);
    }
  }
};

TEST_F(DispatcherMembershipTest, ASilentWorkerIsToldSoAndServesAgainOnceItHasJoinedAnew) {
  JoinPair();
  RunSpeaking(5'000, {1});
  EXPECT_THAT(Actions(), ElementsAre("end2"));
  Speak(2);
  EXPECT_EQ(dispatcher().registry().workers().size(), 1u) << "the old membership is over";
  EXPECT_THAT(Actions(), IsEmpty());
  Join(Again(2, 3));
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D3 1/1"));
}

TEST_F(DispatcherMembershipTest, ByDefaultAWorkerMayBeSilentUpToTheBound) {
  options_.worker_silence_ms = DispatcherOptions().worker_silence_ms;
  JoinPair();
  RunSpeaking(kWorkerSilenceMs - 100, {1});
  RunMs(99);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("end2"));
}

TEST_F(DispatcherMembershipTest, ALateEndOfTheOldStreamLeavesTheNewMembershipAlone) {
  JoinPair();
  RunSpeaking(5'000, {1});
  Join(Again(2, 3));
  Submit(1);
  Actions();
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_NE(dispatcher().registry().Find(MakeWorkerId(3)), nullptr);
}

TEST_F(DispatcherMembershipTest, WhatAWorkerHoldsIsComparedWithTheCallsOfItsMembership) {
  JoinPair();
  Submit(1);
  const auto verdict = [this](uint64_t worker, BlockHold hold) {
    const BlockHolder holder = {.key = KeyOf(1), .hold = hold, .blocks = 3, .own_blocks = 3};
    EXPECT_TRUE(dispatcher().OnWorkerBlocks(MakeWorkerId(worker), {.free_blocks = 97, .holders = {holder}}).empty());
    return dispatcher().block_ledger().Find(MakeWorkerId(worker))->entries.at(0).verdict;
  };
  EXPECT_EQ(verdict(1, BlockHold::kPrefilling), HolderVerdict::kCalled);
  EXPECT_EQ(verdict(2, BlockHold::kPulling), HolderVerdict::kCalled);
  PrefillDone(KeyOf(1), 70);
  EXPECT_EQ(verdict(1, BlockHold::kForReader), HolderVerdict::kRead);
  Committed(KeyOf(1));
  DecodeDone(KeyOf(1));
  EXPECT_EQ(verdict(1, BlockHold::kForReader), HolderVerdict::kEnding);
  EXPECT_EQ(verdict(2, BlockHold::kEnded), HolderVerdict::kEnding);
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  EXPECT_EQ(dispatcher().block_ledger().Find(MakeWorkerId(2)), nullptr);
  EXPECT_TRUE(dispatcher().OnWorkerBlocks(MakeWorkerId(2), {.free_blocks = 1}).empty()) << "a late word";
  EXPECT_EQ(dispatcher().block_ledger().Find(MakeWorkerId(2)), nullptr);
}

TEST_F(DispatcherMembershipTest, AProcessThatIsAMemberMayNotJoinTwice) {
  JoinPair();
  const absl::Status refused = dispatcher().OnWorkerJoin(Again(2, 3));
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  Speak(3, {.state = WorkerState::kDraining});
  dispatcher().OnWorkerLost(MakeWorkerId(3), kBroken);
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1")) << "the refused one speaks for nobody";
}

TEST_F(DispatcherMembershipTest, AProcessThatKnowsItsMembershipReplacesIt) {
  JoinPair();
  Submit(1);
  Submit(2);
  PrefillDone(KeyOf(1), 70);
  Actions();
  Join(Again(2, 3, /*resumes=*/2));
  EXPECT_THAT(Actions(), ElementsAre("end2", "1:UNAVAILABLE", "-P1 2/1", "2:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("host:2 was lost: it joined anew"));
  Submit(3);
  EXPECT_THAT(Actions(), ElementsAre("P1 3/1", "D3 3/1"));
}

TEST_F(DispatcherMembershipTest, AJoinThatIsRefusedEndsNoMembership) {
  JoinPair();
  WorkerInfo nonsense = Again(2, 3, /*resumes=*/2);
  nonsense.total_blocks = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(dispatcher().OnWorkerJoin(nonsense)));
  EXPECT_THAT(Actions(), IsEmpty());
  EXPECT_NE(dispatcher().registry().Find(MakeWorkerId(2)), nullptr);
}

TEST_F(DispatcherMembershipTest, AJobThatOnlyTheRejoiningWorkerCanHoldGoesOnWaiting) {
  options_.worker_silence_ms = 1'000'000;
  WorkerInfo large = MakeWorker(2, WorkerRole::kMixed);
  Join(large);
  WorkerInfo small = MakeWorker(1, WorkerRole::kMixed);
  small.total_blocks = 10;
  Join(small);
  Submit(1, {.prompt_tokens = 1000});
  Submit(2, {.prompt_tokens = 1000});
  EXPECT_THAT(Actions(), ElementsAre("local2 1/1"));
  large.id = MakeWorkerId(3);
  large.resumes = MakeWorkerId(2);
  Join(large);
  EXPECT_THAT(Actions(), ElementsAre("end2", "1:UNAVAILABLE", "local3 2/1"));
}

TEST_F(DispatcherMembershipTest, AfterItsOwnPauseTheRouterCountsSilenceAnew) {
  JoinPair();
  Submit(1);
  Actions();
  AdvanceMs(20'000);
  dispatcher().OnTimer();
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(4'900);
  Speak(1);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(100);
  EXPECT_THAT(Actions(), ElementsAre("end2", "-P1 1/1", "1:UNAVAILABLE")) << "it has had the whole bound again";
  EXPECT_NE(dispatcher().registry().Find(MakeWorkerId(1)), nullptr);
}

TEST_F(DispatcherMembershipTest, ALateTimerWithinTheBoundIsNoPause) {
  JoinPair();
  RunSpeaking(4'000, {1});
  AdvanceMs(1'000);
  dispatcher().OnTimer();
  EXPECT_THAT(Actions(), ElementsAre("end2"));
}

TEST_F(DispatcherMembershipTest, AFirstWorkerAfterALongTimeWithoutAnyIsNoPause) {
  JoinPair();
  dispatcher().OnWorkerLost(MakeWorkerId(1), kBroken);
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  RunMs(60'000);
  AdvanceMs(60'000);
  Join(3, WorkerRole::kMixed);
  RunMs(4'999);
  EXPECT_THAT(Actions(), IsEmpty());
  RunMs(1);
  EXPECT_THAT(Actions(), ElementsAre("end3"));
}

TEST_F(DispatcherMembershipTest, AWorkerWhoseEngineIsStuckIsGivenUpAndABusyOneIsNot) {
  Join(1, WorkerRole::kMixed);
  Join(2, WorkerRole::kMixed);
  Submit(1);
  EXPECT_THAT(Actions(), ElementsAre("local1 1/1"));
  for (int64_t ms = 100; ms <= options_.engine_stall_ms; ms += 100) {
    RunMs(100);
    Speak(1, {.steps = 7, .step_age_ms = ms});
    Speak(2, {.steps = ms, .step_age_ms = 90});
  }
  EXPECT_THAT(Actions(), IsEmpty());
  Speak(1, {.steps = 7, .step_age_ms = options_.engine_stall_ms + 1});
  EXPECT_THAT(Actions(), ElementsAre("end1", "1:UNAVAILABLE"));
  EXPECT_THAT(LastResult().status.message(), HasSubstr("its engine has been in one step for 30001 ms"));
  EXPECT_NE(dispatcher().registry().Find(MakeWorkerId(2)), nullptr);
}

}  // namespace
}  // namespace baton::router
