#include "router/drain_orders.h"

#include "gtest/gtest.h"

namespace baton::router {
namespace {

constexpr char kStreamBroke[] = "the worker's stream broke";

Incarnation Process(uint64_t n) { return {.high = 3, .low = n}; }

TEST(DrainOrdersTest, ADrainEndsWhenItsWorkerHasLeftOrIsLost) {
  DrainOrders orders;
  EXPECT_EQ(orders.Find(Process(1)), nullptr);
  EXPECT_TRUE(orders.Begin(Process(1)));
  EXPECT_TRUE(orders.Begin(Process(2)));
  EXPECT_EQ(orders.Find(Process(1))->state, DrainState::kDraining);
  orders.OnGone(Process(1), /*left=*/true, "the worker left");
  orders.OnGone(Process(2), /*left=*/false, kStreamBroke);
  EXPECT_EQ(orders.Find(Process(1))->state, DrainState::kLeft);
  EXPECT_EQ(orders.Find(Process(1))->why, "");
  EXPECT_EQ(orders.Find(Process(2))->state, DrainState::kLost);
  EXPECT_EQ(orders.Find(Process(2))->why, kStreamBroke);
}

TEST(DrainOrdersTest, WhoWasNotOrderedLeavesNoRecord) {
  DrainOrders orders;
  orders.OnGone(Process(1), /*left=*/true, "");
  EXPECT_EQ(orders.Find(Process(1)), nullptr);
}

TEST(DrainOrdersTest, AWorkerIsOrderedOnceUnlessItCameBack) {
  DrainOrders orders;
  EXPECT_TRUE(orders.Begin(Process(1)));
  EXPECT_FALSE(orders.Begin(Process(1)));
  orders.OnGone(Process(1), /*left=*/false, kStreamBroke);
  EXPECT_TRUE(orders.Begin(Process(1)));
  EXPECT_EQ(orders.Find(Process(1))->state, DrainState::kDraining);
  EXPECT_EQ(orders.Find(Process(1))->why, "");
}

TEST(DrainOrdersTest, TheOldestEndIsForgottenFirstAndNoDrainThatGoesOn) {
  DrainOrders orders;
  // It came back after an end, so that it is none of the ended ones any more.
  orders.Begin(Process(1));
  orders.OnGone(Process(1), /*left=*/false, kStreamBroke);
  orders.Begin(Process(1));
  for (uint64_t n = 2; n < 2 + DrainOrders::kMaxEnded; ++n) {
    orders.Begin(Process(n));
    orders.OnGone(Process(n), /*left=*/true, "");
  }
  EXPECT_NE(orders.Find(Process(2)), nullptr) << "at the limit";
  orders.Begin(Process(1'000));
  orders.OnGone(Process(1'000), /*left=*/true, "");
  EXPECT_EQ(orders.Find(Process(2)), nullptr) << "one beyond";
  EXPECT_NE(orders.Find(Process(3)), nullptr);
  EXPECT_EQ(orders.Find(Process(1))->state, DrainState::kDraining);
}

}  // namespace
}  // namespace baton::router
