#include "router/placement.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

constexpr WorkerRole kPrefill = WorkerRole::kPrefill;
constexpr WorkerRole kDecode = WorkerRole::kDecode;
constexpr WorkerRole kMixed = WorkerRole::kMixed;

JobNeeds Prompt(int64_t tokens) { return {.prompt_tokens = tokens}; }
JobNeeds Solo(int64_t tokens) { return {.prompt_tokens = tokens, .kind = AttemptKind::kSolo}; }
JobNeeds Local(int64_t tokens) { return {.prompt_tokens = tokens, .kind = AttemptKind::kLocal}; }

class PlacementTest : public ::testing::Test {
 protected:
  WorkerInfo& Add(uint64_t n, WorkerRole role) {
    pending_.push_back(MakeWorker(n, role));
    return pending_.back();
  }
  void Load(uint64_t n, const WorkerLoad& load) { loads_[n] = load; }

  // "P/D" by number, or the verdict.
  std::string Place(const JobNeeds& needs) {
    WorkerRegistry registry;
    for (const WorkerInfo& info : pending_) EXPECT_TRUE(registry.Join(info, 0).ok());
    for (const auto& [n, load] : loads_) EXPECT_TRUE(registry.Heartbeat(MakeWorkerId(n), load, 0));
    std::map<WorkerId, WorkerAssignment> assigned;
    for (const auto& [n, a] : assigned_) assigned[MakeWorkerId(n)] = a;
    const PlacementResult result = router::Place(registry, assigned, needs, options_, avoid_, shunned_);
    switch (result.verdict) {
      case PlacementVerdict::kPlaced:
        return std::to_string(result.pair.prefill.low) + "/" + std::to_string(result.pair.decode.low);
      case PlacementVerdict::kBusy:
        return "busy";
      case PlacementVerdict::kImpossible:
        return "impossible";
      case PlacementVerdict::kNoWorkers:
        return "no workers";
    }
    return "?";
  }

  std::vector<WorkerInfo> pending_;
  std::map<uint64_t, WorkerLoad> loads_;
  std::map<uint64_t, WorkerAssignment> assigned_;
  PlacementOptions options_;
  std::vector<WorkerId> avoid_;
  Shunned shunned_;
};

TEST_F(PlacementTest, BothRolesMustBeThere) {
  EXPECT_EQ(Place(Prompt(40)), "no workers");
  Add(1, kPrefill);
  EXPECT_EQ(Place(Prompt(40)), "no workers");
  EXPECT_EQ(Place(Solo(40)), "1/0");
  EXPECT_EQ(Place(Local(40)), "no workers");
  Add(2, kDecode);
  EXPECT_EQ(Place(Prompt(40)), "1/2");
  EXPECT_EQ(Place(Local(40)), "2/2");
}

TEST_F(PlacementTest, PrefillGoesToTheLeastPendingTokensByEitherCount) {
  Add(1, kPrefill);
  Add(2, kPrefill);
  Add(3, kDecode);
  EXPECT_EQ(Place(Prompt(40)), "1/3") << "equal loads: by id";
  Load(1, {.pending_prompt_tokens = 30});
  EXPECT_EQ(Place(Prompt(40)), "2/3");
  assigned_[2] = {.uncomputed_prompt_tokens = 40, .jobs = 1};
  EXPECT_EQ(Place(Prompt(40)), "1/3");
  Load(1, {.pending_prompt_tokens = 50});
  EXPECT_EQ(Place(Prompt(40)), "2/3");
  EXPECT_EQ(Place(Solo(40)), "2/0");
}

TEST_F(PlacementTest, ALateHeartbeatIsCorrectedByWhatEndedSince) {
  Add(1, kPrefill);
  Add(2, kPrefill);
  Add(3, kDecode);
  Load(1, {.pending_prompt_tokens = 1000});
  Load(2, {.pending_prompt_tokens = 10});
  assigned_[1] = {.unheard_prompt_tokens = -1000};
  EXPECT_EQ(Place(Prompt(40)), "1/3");
  Load(3, {.used_blocks = 100});
  EXPECT_EQ(Place(Prompt(40)), "busy");
  assigned_[3] = {.unheard_blocks = -4};
  EXPECT_EQ(Place(Prompt(40)), "1/3");
}

TEST_F(PlacementTest, DecodeGoesToTheLeastReservedBlocksByEitherCount) {
  Add(1, kPrefill);
  Add(2, kDecode);
  Add(3, kDecode);
  Load(2, {.used_blocks = 10});
  EXPECT_EQ(Place(Prompt(40)), "1/3");
  assigned_[3] = {.reserved_blocks = 20, .jobs = 1};
  EXPECT_EQ(Place(Prompt(40)), "1/2");
  assigned_[2] = {.reserved_blocks = 5, .jobs = 1, .unheard_blocks = 15};
  EXPECT_EQ(Place(Prompt(40)), "1/3") << "used 10, and 15 more since";
}

TEST_F(PlacementTest, DecodeNeedsRoomForThePromptAndOneBlockMore) {
  Add(1, kPrefill);
  Add(2, kDecode);
  Load(2, {.used_blocks = 96});
  EXPECT_EQ(Place(Prompt(48)), "1/2");
  EXPECT_EQ(Place(Prompt(49)), "busy");
  Load(2, {.used_blocks = 0});
  assigned_[2] = {.reserved_blocks = 97, .jobs = 3};
  EXPECT_EQ(Place(Prompt(48)), "busy");
}

TEST_F(PlacementTest, AWorkerIsFullWhenItsSequencesAreThoseOfOtherRouters) {
  Add(1, kPrefill);
  Add(2, kDecode).max_sequences = 4;
  Load(2, {.running = 3});
  EXPECT_EQ(Place(Prompt(40)), "1/2");
  Load(2, {.running = 4});
  EXPECT_EQ(Place(Prompt(40)), "busy");
  assigned_[2] = {.jobs = 1, .unheard_jobs = -1};
  EXPECT_EQ(Place(Prompt(40)), "1/2") << "one has ended since";
  Load(2, {.running = 2});
  assigned_[2] = {.jobs = 2, .unheard_jobs = 2};
  EXPECT_EQ(Place(Prompt(40)), "busy") << "two have come since";
  Load(2, {.running = 0});
  assigned_[2] = {.jobs = 4};
  EXPECT_EQ(Place(Prompt(40)), "busy");
}

TEST_F(PlacementTest, AMixedWorkerKeepsItsHeadroomUnlessItIsIdle) {
  WorkerInfo& worker = Add(1, kMixed);
  worker.headroom_blocks = 50;
  EXPECT_EQ(Place(Prompt(99 * 16)), "1/1") << "an idle worker takes any prompt";
  Load(1, {.used_blocks = 1});
  EXPECT_EQ(Place(Prompt(48 * 16)), "1/1") << "its 48 blocks, one for output, 50 to spare";
  EXPECT_EQ(Place(Prompt(48 * 16 + 1)), "busy");
  Load(1, {});
  assigned_[1] = {.reserved_blocks = 1, .jobs = 1, .unheard_blocks = 1};
  EXPECT_EQ(Place(Prompt(48 * 16)), "1/1");
  EXPECT_EQ(Place(Prompt(48 * 16 + 1)), "busy");
  Load(1, {.used_blocks = 9});
  assigned_[1] = {.reserved_blocks = 40, .jobs = 5};
  EXPECT_EQ(Place(Prompt(40 * 16)), "1/1") << "its five prompts share most of their blocks";
  EXPECT_EQ(Place(Prompt(40 * 16 + 1)), "busy");
}

// Their pools may be full of reservations for each other's prompts, neither of which then fits.
TEST_F(PlacementTest, NoMixedWorkerFetchesFromAnotherOne) {
  Add(1, kPrefill);
  Add(2, kMixed);
  Add(3, kMixed);
  shunned_.pairs = {{.prefill = MakeWorkerId(1), .decode = MakeWorkerId(2)}};
  Load(3, {.used_blocks = 100});
  EXPECT_EQ(Place(Prompt(40)), "2/2") << "it computes the prompt that it cannot fetch";
  Load(2, {.used_blocks = 100});
  Load(3, {.used_blocks = 1});
  EXPECT_EQ(Place(Prompt(40)), "1/3");
  shunned_.pairs.push_back({.prefill = MakeWorkerId(1), .decode = MakeWorkerId(3)});
  EXPECT_EQ(Place(Prompt(40)), "3/3");
  Add(4, kDecode);
  shunned_.pairs.push_back({.prefill = MakeWorkerId(1), .decode = MakeWorkerId(4)});
  EXPECT_EQ(Place(Prompt(40)), "2/4") << "a decode worker fetches from any";
}

TEST_F(PlacementTest, WhoWouldServeAJobIsKnownWhileAllAreBusy) {
  Add(1, kPrefill);
  Add(2, kDecode);
  Add(3, kDecode);
  assigned_[1] = {.uncomputed_prompt_tokens = 500, .jobs = 1};
  assigned_[2] = {.reserved_blocks = 90, .jobs = 2};
  assigned_[3] = {.reserved_blocks = 80, .jobs = 16};
  JobNeeds needs = Prompt(40 * 16);
  EXPECT_EQ(Place(needs), "busy");
  needs.idle = CountsAsIdle::kPrefill;
  EXPECT_EQ(Place(needs), "busy");
  needs.idle = CountsAsIdle::kAll;
  EXPECT_EQ(Place(needs), "1/3");
  assigned_[2].reserved_blocks = 59;
  needs.idle = CountsAsIdle::kPrefill;
  EXPECT_EQ(Place(needs), "1/2") << "decode has room";
  needs.prompt_tokens = 100 * 16;
  needs.idle = CountsAsIdle::kAll;
  EXPECT_EQ(Place(needs), "impossible");
}

TEST_F(PlacementTest, DecodeNeedsAFreeSequence) {
  Add(1, kPrefill);
  Add(2, kDecode).max_sequences = 3;
  assigned_[2].jobs = 2;
  EXPECT_EQ(Place(Prompt(48)), "1/2");
  assigned_[2].jobs = 3;
  EXPECT_EQ(Place(Prompt(48)), "busy");
}

TEST_F(PlacementTest, PrefillTakesAboutTwoChunksOrOnePromptWhenIdle) {
  Add(1, kPrefill);
  Add(2, kDecode);
  EXPECT_EQ(Place(Prompt(1000)), "1/2");
  assigned_[1] = {.uncomputed_prompt_tokens = 28, .jobs = 1};
  EXPECT_EQ(Place(Prompt(100)), "1/2");
  EXPECT_EQ(Place(Prompt(101)), "busy");
  EXPECT_EQ(Place(Solo(101)), "busy");
  assigned_[1] = {};
  Load(1, {.pending_prompt_tokens = 1000});
  EXPECT_EQ(Place(Prompt(1000)), "1/2") << "a late heartbeat keeps no idle worker idle";
}

TEST_F(PlacementTest, OnlyEqualFingerprintsArePaired) {
  Add(1, kPrefill).fingerprint = "a";
  Add(2, kDecode).fingerprint = "b";
  EXPECT_EQ(Place(Prompt(40)), "no workers");
  Add(3, kPrefill).fingerprint = "b";
  EXPECT_EQ(Place(Prompt(40)), "3/2");
  Add(4, kDecode).fingerprint = "a";
  EXPECT_EQ(Place(Prompt(40)), "1/4");
  Load(1, {.pending_prompt_tokens = 5});
  EXPECT_EQ(Place(Prompt(40)), "3/2") << "the group with less to do";
}

TEST_F(PlacementTest, DrainingWorkersGetNothing) {
  Add(1, kPrefill);
  Add(2, kDecode);
  Add(3, kDecode);
  Load(2, {.state = WorkerState::kDraining});
  EXPECT_EQ(Place(Prompt(40)), "1/3");
  Load(1, {.state = WorkerState::kDraining});
  EXPECT_EQ(Place(Prompt(40)), "no workers");
  EXPECT_EQ(Place(Solo(40)), "no workers");
}

TEST_F(PlacementTest, AMixedWorkerPrefillsForItselfUnlessADedicatedOneCan) {
  Add(1, kMixed);
  Add(2, kMixed);
  EXPECT_EQ(Place(Prompt(40)), "1/1");
  assigned_[1] = {.reserved_blocks = 4, .jobs = 1};
  EXPECT_EQ(Place(Prompt(40)), "2/2");
  Add(3, kPrefill).total_blocks = 2;
  EXPECT_EQ(Place(Prompt(40)), "2/2") << "the dedicated one is too small";
  EXPECT_EQ(Place(Prompt(32)), "3/2");
  Load(3, {.state = WorkerState::kDraining});
  EXPECT_EQ(Place(Prompt(32)), "2/2");
}

TEST_F(PlacementTest, AMixedWorkerPrefillsForADecodeWorkerWithoutADedicatedOne) {
  Add(1, kMixed);
  Add(2, kDecode);
  assigned_[1] = {.reserved_blocks = 4, .jobs = 1};
  EXPECT_EQ(Place(Prompt(40)), "1/2");
}

TEST_F(PlacementTest, AMixedWorkerBusyWithAPromptDecodesNoFurtherOneOfItsOwn) {
  Add(1, kMixed);
  Add(2, kMixed);
  assigned_[1] = {.uncomputed_prompt_tokens = 500, .reserved_blocks = 2, .jobs = 1};
  assigned_[2] = {.uncomputed_prompt_tokens = 0, .reserved_blocks = 40, .jobs = 9};
  EXPECT_EQ(Place(Prompt(40)), "2/2");
  assigned_[2].uncomputed_prompt_tokens = 100;
  EXPECT_EQ(Place(Prompt(40)), "busy");
}

TEST_F(PlacementTest, ABusyDedicatedPrefillWorkerIsWaitedFor) {
  Add(1, kPrefill);
  Add(2, kMixed);
  assigned_[1] = {.uncomputed_prompt_tokens = 500, .jobs = 1};
  EXPECT_EQ(Place(Prompt(40)), "busy");
}

TEST_F(PlacementTest, AvoidedWorkersAreBusy) {
  Add(1, kPrefill);
  Add(2, kDecode);
  Add(3, kDecode);
  avoid_ = {MakeWorkerId(2)};
  EXPECT_EQ(Place(Prompt(40)), "1/3");
  avoid_ = {MakeWorkerId(2), MakeWorkerId(3)};
  EXPECT_EQ(Place(Prompt(40)), "busy");
  avoid_ = {MakeWorkerId(1)};
  EXPECT_EQ(Place(Prompt(40)), "busy");
}

TEST_F(PlacementTest, WhatFitsNoWorkerIsImpossible) {
  Add(1, kPrefill);
  Add(2, kDecode);
  EXPECT_EQ(Place(Prompt(99 * 16)), "1/2");
  EXPECT_EQ(Place(Prompt(99 * 16 + 1)), "impossible") << "the decode worker needs one block more";
  EXPECT_EQ(Place(Solo(99 * 16 + 1)), "1/0");
  EXPECT_EQ(Place(Solo(100 * 16 + 1)), "impossible");
  Add(3, kDecode).total_blocks = 200;
  assigned_[3] = {.reserved_blocks = 190, .jobs = 1};
  EXPECT_EQ(Place(Prompt(100 * 16)), "busy");
  EXPECT_EQ(Place(Prompt(100 * 16 + 1)), "impossible") << "the prefill worker's pool is too small";
}

TEST_F(PlacementTest, SlidingLayersTakeAWindowAndAChunkAtMost) {
  Add(1, kPrefill);
  Add(2, kDecode);
  for (WorkerInfo& info : pending_) {
    info.chunk_tokens = 16;
    info.groups = {.full = 1, .sliding = 2, .window = 32};
  }
  // 2 + 1 blocks of each sliding group, however long it is.
  EXPECT_EQ(Place(Prompt(93 * 16)), "1/2");
  EXPECT_EQ(Place(Prompt(93 * 16 + 1)), "impossible") << "the decode worker needs one of the full group more";
  EXPECT_EQ(Place(Solo(94 * 16)), "1/0");
  EXPECT_EQ(Place(Solo(94 * 16 + 1)), "impossible");
}

TEST_F(PlacementTest, ThePromptMustLeaveRoomInTheContext) {
  Add(1, kPrefill).context_length = 64;
  Add(2, kDecode);
  EXPECT_EQ(Place(Prompt(63)), "1/2");
  EXPECT_EQ(Place(Prompt(64)), "impossible");
  EXPECT_EQ(Place(Solo(64)), "impossible");
  EXPECT_EQ(Place(Local(64)), "2/2");
}

}  // namespace
}  // namespace baton::router
