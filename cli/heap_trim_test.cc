#include "cli/heap_trim.h"

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

constexpr int64_t kOwnBytes = int64_t{100} << 20;

// A plan whose first trim left so much.
HeapTrimPlan TrimmedAt(int64_t own_bytes) {
  HeapTrimPlan plan;
  EXPECT_TRUE(plan.IsDue(own_bytes));
  plan.OnTrimmed(own_bytes);
  return plan;
}

TEST(HeapTrimPlanTest, MemoryThatDoesNotGrowIsTrimmedAtTheLastLook) {
  HeapTrimPlan plan = TrimmedAt(kOwnBytes);
  for (int round = 0; round < 2; ++round) {
    for (int look = 1; look < kLooksBetweenTrims; ++look) ASSERT_FALSE(plan.IsDue(kOwnBytes)) << look;
    EXPECT_TRUE(plan.IsDue(kOwnBytes));
    plan.OnTrimmed(kOwnBytes);
  }
}

TEST(HeapTrimPlanTest, MemoryThatHasGrownIsTrimmedAtEveryLookUntilItIsGivenBack) {
  HeapTrimPlan plan = TrimmedAt(kOwnBytes);
  EXPECT_FALSE(plan.IsDue(kOwnBytes + kHeapGrowthBytes - 1));
  for (int look = 0; look < 2; ++look) {
    EXPECT_TRUE(plan.IsDue(kOwnBytes + kHeapGrowthBytes));
    plan.OnTrimmed(kOwnBytes + kHeapGrowthBytes);
  }
  EXPECT_FALSE(plan.IsDue(kOwnBytes));
}

TEST(HeapTrimPlanTest, MemoryThatStaysInUseCountsAsGrownForTwoRegularTrims) {
  constexpr int64_t kInUse = kOwnBytes + kHeapGrowthBytes;
  HeapTrimPlan plan = TrimmedAt(kOwnBytes);
  for (int look = 1; look <= 2 * kLooksBetweenTrims; ++look) {
    ASSERT_TRUE(plan.IsDue(kInUse)) << look;
    plan.OnTrimmed(kInUse);
  }
  EXPECT_FALSE(plan.IsDue(kInUse));
}

TEST(HeapTrimPlanTest, ARegularTrimInTheMidstOfAFloodDoesNotKeepItsMemory) {
  constexpr int64_t kInUse = kOwnBytes + 2 * kHeapGrowthBytes;
  HeapTrimPlan plan = TrimmedAt(kOwnBytes);
  for (int look = 1; look < kLooksBetweenTrims; ++look) ASSERT_FALSE(plan.IsDue(kOwnBytes)) << look;
  EXPECT_TRUE(plan.IsDue(kInUse));
  plan.OnTrimmed(kInUse);
  EXPECT_TRUE(plan.IsDue(kInUse)) << "what the flood left";
}

}  // namespace
}  // namespace baton::cli
