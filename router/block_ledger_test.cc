#include "router/block_ledger.h"

#include <cstdint>
#include <map>
#include <vector>

#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kPool = 100;
// A prefill worker and a decode worker.
constexpr WorkerId kFirst = {.high = 1, .low = 1};
constexpr WorkerId kSecond = {.high = 1, .low = 2};

BlockHolder Holder(const JobKey& key, BlockHold hold, int32_t blocks, int32_t own_blocks) {
  return {.key = key, .hold = hold, .blocks = blocks, .own_blocks = own_blocks, .held_ms = 5};
}
BlockHolder Holder(const JobKey& key, BlockHold hold, int32_t blocks = 4) { return Holder(key, hold, blocks, blocks); }

// One whose books balance: ten blocks are cached, the rest is free.
BlockReport ReportOf(const std::vector<BlockHolder>& holders) {
  BlockReport report = {.free_blocks = kPool - 10, .cached_blocks = 10, .holders = holders};
  for (const BlockHolder& holder : holders) report.free_blocks -= holder.own_blocks;
  return report;
}

class BlockLedgerTest : public ::testing::Test {
 protected:
  LedgerNews Report(const WorkerId& worker, const BlockReport& report) {
    clock_.Advance(kBlockReportMs * kNsPerMs);
    return ledger_.OnReport(worker, kPool, report, [this](const JobKey& key) { return calls_[key]; });
  }
  LedgerNews Report(const WorkerId& worker, const std::vector<BlockHolder>& holders) {
    return Report(worker, ReportOf(holders));
  }
  // Expects no news.
  void ReportTimes(int32_t times, const WorkerId& worker, const std::vector<BlockHolder>& holders) {
    for (int32_t i = 0; i < times; ++i) EXPECT_TRUE(Report(worker, holders).empty()) << "report " << i;
  }
  HolderVerdict VerdictOf(const WorkerId& worker, size_t entry = 0) {
    return ledger_.Find(worker)->entries.at(entry).verdict;
  }
  int64_t OrphanedBlocks(const WorkerId& worker) { return ledger_.Find(worker)->orphaned_blocks; }

  ManualClock clock_;
  BlockLedger ledger_{clock_};
  std::map<JobKey, AttemptCalls> calls_;
};

TEST_F(BlockLedgerTest, BlocksOfOtherRoutersAreAccountedForAndNotJudged) {
  calls_[KeyOf(1)] = {.decode = kFirst};
  BlockReport report = ReportOf({Holder(KeyOf(1), BlockHold::kDecoding)});
  report.other_routers_blocks = 7;
  report.free_blocks -= 7;
  for (int32_t i = 0; i < 2 * kOrphanReports; ++i) EXPECT_TRUE(Report(kFirst, report).empty()) << "report " << i;
  EXPECT_EQ(OrphanedBlocks(kFirst), 0);
  EXPECT_EQ(ledger_.Find(kFirst)->other_routers_blocks, 7);
  ++report.other_routers_blocks;
  EXPECT_EQ(Report(kFirst, report).unaccounted_blocks, -1) << "one is counted twice";
}

TEST_F(BlockLedgerTest, HoldersWithAnOpenCallAtTheirWorkerAreNeverOrphans) {
  calls_[KeyOf(1)] = {.prefill = kFirst, .decode = kSecond};
  for (const BlockHold hold : kBlockHolds) {
    if (hold == BlockHold::kUnowned) continue;
    ReportTimes(2 * kOrphanReports, kFirst, {Holder(KeyOf(1), hold)});
    EXPECT_EQ(VerdictOf(kFirst), HolderVerdict::kCalled);
    ReportTimes(2 * kOrphanReports, kSecond, {Holder(KeyOf(1), hold)});
    EXPECT_EQ(VerdictOf(kSecond), HolderVerdict::kCalled);
  }
  EXPECT_EQ(OrphanedBlocks(kFirst), 0);
  EXPECT_FALSE(ledger_.Find(kFirst)->has_orphans());
}

TEST_F(BlockLedgerTest, APrefillWorkerMayHoldAPromptAsLongAsItsReaderHasACall) {
  calls_[KeyOf(1)] = {.decode = kSecond};
  ReportTimes(3 * kOrphanReports, kFirst, {Holder(KeyOf(1), BlockHold::kForReader)});
  EXPECT_EQ(VerdictOf(kFirst), HolderVerdict::kRead);
}

TEST_F(BlockLedgerTest, ACallElsewhereExcusesNobodyWhoHasNoReader) {
  calls_[KeyOf(1)] = {.prefill = kFirst};
  ReportTimes(kOrphanReports - 1, kSecond, {Holder(KeyOf(1), BlockHold::kDecoding)});
  EXPECT_EQ(Report(kSecond, {Holder(KeyOf(1), BlockHold::kDecoding)}).orphans.size(), 1u);
  calls_[KeyOf(2)] = {.decode = kSecond};
  ReportTimes(kOrphanReports - 1, kFirst, {Holder(KeyOf(2), BlockHold::kPrefilling)});
  EXPECT_EQ(Report(kFirst, {Holder(KeyOf(2), BlockHold::kPrefilling)}).orphans.size(), 1u);
}

TEST_F(BlockLedgerTest, AReaderWhoseCallIsOnThePrefillSideIsNone) {
  calls_[KeyOf(1)] = {.prefill = kSecond};
  ReportTimes(kOrphanReports - 1, kFirst, {Holder(KeyOf(1), BlockHold::kForReader)});
  EXPECT_EQ(Report(kFirst, {Holder(KeyOf(1), BlockHold::kForReader)}).orphans.size(), 1u);
}

TEST_F(BlockLedgerTest, AnotherAttemptOfTheSameJobExcusesNobody) {
  calls_[KeyOf(1, 2)] = {.prefill = kFirst, .decode = kSecond};
  ReportTimes(kOrphanReports - 1, kSecond, {Holder(KeyOf(1, 1), BlockHold::kPulling)});
  EXPECT_EQ(Report(kSecond, {Holder(KeyOf(1, 1), BlockHold::kPulling)}).orphans.size(), 1u);
}

TEST_F(BlockLedgerTest, ALeakIsNewsOnceAndCountsUntilItIsGone) {
  const BlockHolder leak = Holder(KeyOf(1), BlockHold::kEnded, 7);
  ReportTimes(kOrphanReports - 1, kSecond, {leak});
  EXPECT_EQ(VerdictOf(kSecond), HolderVerdict::kEnding);
  EXPECT_EQ(OrphanedBlocks(kSecond), 0);
  EXPECT_THAT(Report(kSecond, {leak}).orphans, ElementsAre(leak));
  EXPECT_EQ(OrphanedBlocks(kSecond), 7);
  EXPECT_TRUE(ledger_.Find(kSecond)->has_orphans());
  ReportTimes(3, kSecond, {leak});
  EXPECT_EQ(OrphanedBlocks(kSecond), 7);
  ReportTimes(1, kSecond, {});
  EXPECT_EQ(OrphanedBlocks(kSecond), 0);
  EXPECT_FALSE(ledger_.Find(kSecond)->has_orphans());
}

TEST_F(BlockLedgerTest, EachFurtherLeakIsNewsByItself) {
  const BlockHolder first = Holder(KeyOf(1), BlockHold::kEnded);
  const BlockHolder second = Holder(KeyOf(2), BlockHold::kEnded);
  ReportTimes(1, kSecond, {first});
  ReportTimes(kOrphanReports - 2, kSecond, {first, second});
  EXPECT_THAT(Report(kSecond, {first, second}).orphans, ElementsAre(first));
  EXPECT_THAT(Report(kSecond, {first, second}).orphans, ElementsAre(second));
  EXPECT_EQ(OrphanedBlocks(kSecond), 8);
}

// The longest that correct workers do: everything but the last report.
TEST_F(BlockLedgerTest, ALeaseItsGraceAndAReadInFlightAreNoLeak) {
  for (const BlockHold hold : {BlockHold::kForReader, BlockHold::kQuarantined}) {
    ReportTimes(kOrphanReports - 1, kFirst, {Holder(KeyOf(1), hold)});
    EXPECT_EQ(VerdictOf(kFirst), HolderVerdict::kEnding);
    ReportTimes(1, kFirst, {});
  }
  constexpr int64_t kLeaseAndGraceMs = 30'250;
  constexpr int64_t kNoticeAndStalledReadMs = 25'000;
  EXPECT_GT(kOrphanAfterMs, kLeaseAndGraceMs);
  EXPECT_GT(kOrphanAfterMs, kNoticeAndStalledReadMs);
}

TEST_F(BlockLedgerTest, AHolderThatIsGoneInBetweenBeginsAnew) {
  const BlockHolder held = Holder(KeyOf(1), BlockHold::kForReader);
  ReportTimes(kOrphanReports - 1, kFirst, {held});
  ReportTimes(1, kFirst, {});
  ReportTimes(kOrphanReports - 1, kFirst, {held});
}

TEST_F(BlockLedgerTest, AHolderThatHadACallInBetweenBeginsAnew) {
  for (const AttemptCalls& calls : {AttemptCalls{.prefill = kFirst}, AttemptCalls{.decode = kSecond}}) {
    const BlockHolder held = Holder(KeyOf(calls.prefill.has_value() ? 1 : 2), BlockHold::kForReader);
    ReportTimes(kOrphanReports - 1, kFirst, {held});
    calls_[held.key] = calls;
    ReportTimes(1, kFirst, {held});
    calls_.clear();
    ReportTimes(kOrphanReports - 1, kFirst, {held});
    EXPECT_EQ(VerdictOf(kFirst), HolderVerdict::kEnding);
  }
}

TEST_F(BlockLedgerTest, AWorkerThatJoinsAgainBeginsAnew) {
  const BlockHolder held = Holder(KeyOf(1), BlockHold::kQuarantined);
  ReportTimes(kOrphanReports - 1, kSecond, {held});
  ledger_.Forget(kSecond);
  EXPECT_EQ(ledger_.Find(kSecond), nullptr);
  const WorkerId again = {.high = 1, .low = 9};
  ReportTimes(kOrphanReports - 1, again, {held});
  ReportTimes(1, again, {});
}

TEST_F(BlockLedgerTest, TheReportsOfOneWorkerDoNotCountForAnother) {
  const BlockHolder held = Holder(KeyOf(1), BlockHold::kEnded);
  ReportTimes(kOrphanReports - 1, kSecond, {held});
  ReportTimes(kOrphanReports - 1, kFirst, {held});
  EXPECT_EQ(Report(kSecond, {held}).orphans.size(), 1u);
}

TEST_F(BlockLedgerTest, TimeAloneMakesNoOrphan) {
  const BlockHolder held = Holder(KeyOf(1), BlockHold::kForReader);
  ReportTimes(1, kFirst, {held});
  clock_.Advance(10 * kOrphanAfterMs * kNsPerMs);
  ReportTimes(1, kFirst, {held});
  EXPECT_EQ(VerdictOf(kFirst), HolderVerdict::kEnding) << "the router or the worker was paused";
}

TEST_F(BlockLedgerTest, ASequenceThatNoPhaseKnowsIsAnOrphanAtOnceWhateverCallsAreOpen) {
  calls_[KeyOf(1)] = {.prefill = kFirst, .decode = kSecond};
  const BlockHolder unowned = Holder(KeyOf(1), BlockHold::kUnowned, 3);
  EXPECT_THAT(Report(kSecond, {unowned}).orphans, ElementsAre(unowned));
  EXPECT_EQ(OrphanedBlocks(kSecond), 3);
  ReportTimes(3, kSecond, {unowned});
}

TEST_F(BlockLedgerTest, TwoSequencesOfOneAttemptAreCountedOnceAReport) {
  const BlockHolder held = Holder(KeyOf(1), BlockHold::kEnded);
  ReportTimes(kOrphanReports - 1, kSecond, {held, held});
  EXPECT_EQ(Report(kSecond, {held, held}).orphans.size(), 2u);
}

TEST_F(BlockLedgerTest, SharedBlocksCountOnceInTheBooksAndForEveryOrphan) {
  calls_[KeyOf(1)] = {.decode = kSecond};
  const BlockHolder lives = Holder(KeyOf(1), BlockHold::kDecoding, 6);
  const BlockHolder shares_all = Holder(KeyOf(2), BlockHold::kEnded, 5, 0);
  ReportTimes(kOrphanReports - 1, kSecond, {lives, shares_all});
  EXPECT_FALSE(Report(kSecond, {lives, shares_all}).empty()) << "a leak that a living job hides for now";
  EXPECT_EQ(ledger_.Find(kSecond)->unaccounted_blocks, 0);
  EXPECT_EQ(OrphanedBlocks(kSecond), 5);
}

TEST_F(BlockLedgerTest, AnOrphanWithoutBlocksIsOneToo) {
  const BlockHolder slot = Holder(KeyOf(1), BlockHold::kPreempted, 0);
  ReportTimes(kOrphanReports - 1, kSecond, {slot});
  EXPECT_FALSE(Report(kSecond, {slot}).empty());
  EXPECT_TRUE(ledger_.Find(kSecond)->has_orphans());
}

TEST_F(BlockLedgerTest, BooksThatDoNotBalanceAreNewsOnceInEitherDirection) {
  for (const int32_t lost : {3, -3}) {
    BlockReport report = ReportOf({});
    report.free_blocks -= lost;
    EXPECT_EQ(Report(kSecond, report).unaccounted_blocks, lost);
    EXPECT_EQ(OrphanedBlocks(kSecond), 3);
    EXPECT_TRUE(ledger_.Find(kSecond)->has_orphans());
    EXPECT_TRUE(Report(kSecond, report).empty()) << "it is known";
    ReportTimes(1, kSecond, {});
    EXPECT_EQ(OrphanedBlocks(kSecond), 0);
  }
}

TEST_F(BlockLedgerTest, AReportReplacesTheOneBeforeAndSaysWhenItCame) {
  EXPECT_EQ(ledger_.Find(kFirst), nullptr);
  calls_[KeyOf(1)] = {.prefill = kFirst};
  ReportTimes(1, kFirst, {Holder(KeyOf(1), BlockHold::kPrefilling)});
  EXPECT_EQ(ledger_.Find(kFirst)->entries.size(), 1u);
  EXPECT_EQ(ledger_.Find(kFirst)->free_blocks, kPool - 10 - 4);
  EXPECT_EQ(ledger_.Find(kFirst)->cached_blocks, 10);
  ReportTimes(1, kFirst, {});
  EXPECT_THAT(ledger_.Find(kFirst)->entries, IsEmpty());
  EXPECT_EQ(ledger_.Find(kFirst)->reported_at, clock_.Now());
}

}  // namespace
}  // namespace baton::router
