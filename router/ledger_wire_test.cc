#include "router/ledger_wire.h"

#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LedgerWireTest : public ::testing::Test {
 protected:
  void Join(uint64_t n, WorkerRole role) {
    WorkerInfo info;
    info.id = {.high = 1, .low = n};
    info.incarnation = {.high = 3, .low = n};
    info.role = role;
    info.target = "host:" + std::to_string(n);
    info.fingerprint = "f";
    info.total_blocks = 50;
    info.max_sequences = 16;
    info.chunk_tokens = 64;
    info.context_length = 4096;
    info.pid = static_cast<int64_t>(100 + n);
    ASSERT_TRUE(dispatcher_.OnWorkerJoin(info).ok());
  }
  static BlockHolder Holder(uint64_t job, BlockHold hold, int32_t blocks) {
    return {.key = {.job = {.high = 2, .low = job}, .attempt = 3, .choice = 4},
            .hold = hold,
            .blocks = blocks,
            .own_blocks = blocks - 1,
            .held_ms = 70};
  }
  v1::GetLedgerResponse Answer(int32_t max_holders) {
    v1::GetLedgerResponse response;
    FillLedger(dispatcher_, clock_.Now(), max_holders, &response);
    return response;
  }
  static std::vector<std::string> Jobs(const v1::WorkerLedger& worker) {
    std::vector<std::string> jobs;
    for (const v1::LedgerHolder& holder : worker.holders()) jobs.push_back(holder.job().substr(31));
    return jobs;
  }

  ManualClock clock_;
  SeededRandom random_{1};
  Dispatcher dispatcher_{{}, clock_, random_};
};

TEST_F(LedgerWireTest, SaysOfEachWorkerWhoHoldsWhatWithOrphansFirst) {
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kDecode);
  dispatcher_.OnWorkerBlocks({.high = 1, .low = 2},
                             {.free_blocks = 26,
                              .cached_blocks = 10,
                              .other_routers_blocks = 4,
                              .holders = {Holder(5, BlockHold::kForReader, 4), Holder(6, BlockHold::kUnowned, 6)}});
  clock_.AdvanceMs(250);
  const v1::GetLedgerResponse response = Answer(kMaxListedHolders);
  EXPECT_EQ(response.orphan_after_ms(), kOrphanAfterMs);
  // Six of the unowned sequence, and two that nobody counts: 50 - 26 - 10 - 4 - 3 - 5.
  EXPECT_EQ(response.orphaned_blocks(), 8);
  EXPECT_EQ(response.workers_with_orphans(), 1);
  ASSERT_EQ(response.workers_size(), 2);
  const v1::WorkerLedger& silent = response.workers(0);
  EXPECT_EQ(silent.role(), "prefill");
  EXPECT_EQ(silent.address(), "host:1");
  EXPECT_EQ(silent.pid(), 101);
  EXPECT_EQ(silent.total_blocks(), 50);
  EXPECT_FALSE(silent.reported());
  const v1::WorkerLedger& worker = response.workers(1);
  EXPECT_TRUE(worker.reported());
  EXPECT_EQ(worker.report_age_ms(), 250);
  EXPECT_EQ(worker.free_blocks(), 26);
  EXPECT_EQ(worker.other_routers_blocks(), 4);
  EXPECT_EQ(worker.cached_blocks(), 10);
  EXPECT_EQ(worker.unaccounted_blocks(), 2);
  EXPECT_EQ(worker.orphaned_blocks(), 8);
  EXPECT_THAT(Jobs(worker), ElementsAre("6", "5"));
  const v1::LedgerHolder& orphan = worker.holders(0);
  EXPECT_EQ(orphan.attempt(), 3u);
  EXPECT_EQ(orphan.choice(), 4u);
  EXPECT_EQ(orphan.hold(), "unowned");
  EXPECT_EQ(orphan.verdict(), "orphan");
  EXPECT_EQ(orphan.blocks(), 6);
  EXPECT_EQ(orphan.own_blocks(), 5);
  EXPECT_EQ(orphan.held_ms(), 70);
  EXPECT_EQ(worker.holders(1).hold(), "for_reader");
  EXPECT_EQ(worker.holders(1).verdict(), "ending");
}

TEST_F(LedgerWireTest, ListsNoMoreHoldersThanFitAndCountsTheOthers) {
  for (const uint64_t n : {1, 2}) {
    Join(n, WorkerRole::kMixed);
    dispatcher_.OnWorkerBlocks({.high = 1, .low = n},
                               {.free_blocks = 50,
                                .cached_blocks = 0,
                                .holders = {Holder(5, BlockHold::kDecoding, 1), Holder(6, BlockHold::kDecoding, 1)}});
  }
  v1::GetLedgerResponse response = Answer(4);
  EXPECT_EQ(response.workers(0).omitted_holders() + response.workers(1).omitted_holders(), 0);
  response = Answer(3);
  EXPECT_THAT(Jobs(response.workers(0)), ElementsAre("5", "6"));
  EXPECT_EQ(response.workers(0).omitted_holders(), 0);
  EXPECT_THAT(Jobs(response.workers(1)), ElementsAre("5"));
  EXPECT_EQ(response.workers(1).omitted_holders(), 1);
  response = Answer(0);
  EXPECT_THAT(Jobs(response.workers(0)), IsEmpty());
  EXPECT_EQ(response.workers(1).omitted_holders(), 2);
}

TEST_F(LedgerWireTest, EveryHoldHasANameOfItsOwn) {
  Join(1, WorkerRole::kMixed);
  BlockReport report = {.free_blocks = 50, .cached_blocks = 0, .holders = {}};
  for (const BlockHold hold : kBlockHolds) report.holders.push_back(Holder(report.holders.size(), hold, 1));
  dispatcher_.OnWorkerBlocks({.high = 1, .low = 1}, report);
  std::vector<std::string> names;
  const v1::GetLedgerResponse response = Answer(100);
  for (const v1::LedgerHolder& holder : response.workers(0).holders()) names.push_back(holder.hold());
  EXPECT_THAT(names, ElementsAre("unowned", "pulling", "quarantined", "prefilling", "decoding", "preempted",
                                 "for_reader", "ended"));
}

}  // namespace
}  // namespace baton::router
