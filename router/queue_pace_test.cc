#include "router/queue_pace.h"

#include "gtest/gtest.h"

namespace baton::router {
namespace {

class QueuePaceTest : public ::testing::Test {
 protected:
  static constexpr int64_t kStepNs = 100 * kNsPerMs;

  // Jobs of this cost wait and are placed, one every kStepNs.
  void Place(int jobs, int64_t cost) {
    for (int i = 0; i < jobs; ++i) {
      now_ += kStepNs;
      pace_.OnPlaced({.cost = cost, .waits_since = now_ - kStepNs, .now = now_});
    }
  }

  QueuePace pace_;
  TimeNs now_ = 1'000 * kNsPerSecond;
};

TEST_F(QueuePaceTest, ThePaceIsThatOfJobsThatWaited) {
  pace_.OnWaiting(now_);
  Place(50, 30);
  EXPECT_NEAR(static_cast<double>(pace_.NsForCost(now_, 60)), 2.0 * kStepNs, 10);
  EXPECT_NEAR(static_cast<double>(pace_.NsForJobs(now_, 3)), 3.0 * kStepNs, 10);
}

TEST_F(QueuePaceTest, NothingIsKnownBeforeSomeJobsHaveWaited) {
  pace_.OnWaiting(now_);
  Place(kLeastPlacements - 1, 30);
  EXPECT_FALSE(pace_.known());
  EXPECT_EQ(pace_.NsForCost(now_, 60), 0);
  Place(1, 30);
  EXPECT_TRUE(pace_.known());
  EXPECT_GT(pace_.NsForCost(now_, 60), 0);
}

TEST_F(QueuePaceTest, AJobThatDidNotWaitSaysNothing) {
  for (int i = 0; i < 50; ++i) {
    pace_.OnWaiting(now_);
    pace_.OnPlaced({.cost = 30, .waits_since = now_, .now = now_ + kShortestWaitNs - 1});
    pace_.OnWaitingEnded();
  }
  EXPECT_FALSE(pace_.known());
}

TEST_F(QueuePaceTest, TimeInWhichNobodyWaitsDoesNotCount) {
  for (int i = 0; i < 50; ++i) {
    pace_.OnWaiting(now_);
    Place(1, 30);
    pace_.OnWaitingEnded();
    now_ += kNsPerSecond;
  }
  EXPECT_NEAR(static_cast<double>(pace_.NsForCost(now_, 30)), kStepNs, 10);
}

TEST_F(QueuePaceTest, TheClockGoesOnWhileOneOfSeveralWaits) {
  pace_.OnWaiting(now_);
  Place(50, 30);
  pace_.OnWaiting(now_ + kStepNs / 2);
  pace_.OnWaitingEnded();
  Place(1, 30);
  EXPECT_NEAR(static_cast<double>(pace_.NsForCost(now_, 30)), kStepNs, 10);
}

TEST_F(QueuePaceTest, ThePaceFollowsAClusterThatBecomesSlower) {
  pace_.OnWaiting(now_);
  Place(50, 300);
  Place(4 * kPlacementsRemembered, 30);
  EXPECT_NEAR(static_cast<double>(pace_.NsForCost(now_, 30)), kStepNs, 0.2 * kStepNs);
}

TEST_F(QueuePaceTest, AClusterThatBecameSlowerIsKnownSoonerThanOneThatBecameFaster) {
  pace_.OnWaiting(now_);
  Place(4 * kPlacementsRemembered, 300);
  const int64_t fast = pace_.NsForCost(now_, 30);
  Place(2 * kLastPlacements, 30);
  const int64_t slow = pace_.NsForCost(now_, 30);
  EXPECT_GT(slow, 4 * fast);
  Place(kLastPlacements, 300);
  EXPECT_GT(pace_.NsForCost(now_, 30), slow / 4);
  Place(4 * kPlacementsRemembered, 300);
  EXPECT_LT(pace_.NsForCost(now_, 30), 2 * fast);
}

TEST_F(QueuePaceTest, ThePaceCountsJobsAsTheLineDoes) {
  pace_.OnWaiting(now_);
  Place(50, 30);
  pace_.OnUsualCostChanged(120);
  EXPECT_NEAR(static_cast<double>(pace_.NsForCost(now_, 30)), 1.0 * kStepNs, 10) << "their outputs are bounded";
  for (int i = 0; i < 20 * kPlacementsRemembered; ++i) {
    now_ += kStepNs;
    pace_.OnPlaced({.cost = 30, .has_usual_outputs = true, .waits_since = now_ - kStepNs, .now = now_});
  }
  pace_.OnUsualCostChanged(120);
  EXPECT_NEAR(static_cast<double>(pace_.NsForCost(now_, 150)), 1.0 * kStepNs, 10);
  EXPECT_NEAR(static_cast<double>(pace_.NsForJobs(now_, 3)), 3.0 * kStepNs, 10);
  pace_.OnUsualCostChanged(-1'000);
  EXPECT_NEAR(static_cast<double>(pace_.NsForCost(now_, 1)), 1.0 * kStepNs, 10);
}

TEST_F(QueuePaceTest, JobsThatArePlacedTogetherCountTogether) {
  constexpr int64_t kBurst = 64;
  constexpr int64_t kGapNs = 2 * kNsPerSecond;
  pace_.OnWaiting(now_);
  for (int burst = 0; burst < 8; ++burst) {
    const TimeNs since = now_;
    now_ += kGapNs;
    for (int64_t i = 0; i < kBurst; ++i) {
      pace_.OnPlaced({.cost = 30, .calls = static_cast<size_t>(i), .waits_since = since, .now = now_ + i * kNsPerMs});
    }
    now_ += kBurst * kNsPerMs;
    for (const TimeNs wait : {int64_t{0}, kGapNs}) {
      if (burst == 0) continue;
      const auto per_burst = static_cast<double>(pace_.NsForJobs(now_ + wait, kBurst));
      EXPECT_GT(per_burst, kGapNs / 2) << burst;
      EXPECT_LT(per_burst, 2 * kGapNs) << burst;
    }
  }
}

TEST_F(QueuePaceTest, AClusterThatStandsStillBecomesSlowerWhileSomebodyWaits) {
  pace_.OnWaiting(now_);
  Place(kPlacementsRemembered, 30);
  const int64_t before = pace_.NsForCost(now_, 30);
  const TimeNs later = now_ + 2 * kPlacementsRemembered * kStepNs;
  EXPECT_GT(pace_.NsForCost(later, 30), 2 * before);
  pace_.OnWaitingEnded();
  EXPECT_EQ(pace_.NsForCost(later, 30), before);
}

}  // namespace
}  // namespace baton::router
