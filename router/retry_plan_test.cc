#include "router/retry_plan.h"

#include <algorithm>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace baton::router {
namespace {

constexpr TimeNs kPlanStart = 1'000 * kNsPerSecond;
constexpr int64_t kServiceNs = 100 * kNsPerMs;

class RetryPlanTest : public ::testing::Test {
 protected:
  int64_t Promise(TimeNs now, int64_t no_room_ms, int64_t service_ns = kServiceNs) {
    return plan_.Promise(now, {.no_room_ns = no_room_ms * kNsPerMs, .service_ns = service_ns});
  }

  SeededRandom random_{1};
  RetryPlan plan_{random_};
};

TEST_F(RetryPlanTest, AClientIsToComeBackWhenThereIsRoomAndALittleLater) {
  std::set<int64_t> seen;
  for (int i = 0; i < 100; ++i) {
    SeededRandom random(static_cast<uint64_t>(i));
    const int64_t after_ms =
        RetryPlan(random).Promise(kPlanStart, {.no_room_ns = kNsPerSecond, .service_ns = kServiceNs});
    EXPECT_GE(after_ms, 1'000);
    EXPECT_LE(after_ms, 1'000 + 1'000 / kJitterParts);
    seen.insert(after_ms);
  }
  EXPECT_GT(seen.size(), 20u) << "they come back at the same time";
}

TEST_F(RetryPlanTest, ClientsRefusedAtOnceComeBackOneBehindTheOther) {
  constexpr int kClients = 100;
  std::vector<int64_t> after_ms;
  for (int i = 0; i < kClients; ++i) after_ms.push_back(Promise(kPlanStart, 500));
  std::sort(after_ms.begin(), after_ms.end());
  for (int i = 0; i < kClients; ++i) EXPECT_GE(after_ms[static_cast<size_t>(i)], 500 + 100 * i) << i;
  EXPECT_LE(after_ms.back(), (500 + 100 * kClients) * (kJitterParts + 1) / kJitterParts);
}

TEST_F(RetryPlanTest, WhoIsPromisedATimeKeepsNobodyWaitingOnceItHasPassed) {
  for (int i = 0; i < 100; ++i) Promise(kPlanStart, 0);
  EXPECT_LE(Promise(kPlanStart + 10 * kNsPerSecond, 80), 100);
}

TEST_F(RetryPlanTest, AWaitIsBoundedBothWays) {
  EXPECT_GE(Promise(kPlanStart, 0), kMinRetryAfterMs);
  EXPECT_LE(Promise(kPlanStart, 0, 0), 200);
  constexpr int64_t kMost = kMaxRetryAfterMs * (kJitterParts + 1) / kJitterParts;
  EXPECT_LE(Promise(kPlanStart, int64_t{1} << 40), kMost);
  for (int i = 0; i < 10'000; ++i) EXPECT_LE(Promise(kPlanStart, 1), kMost);
  EXPECT_LE(Promise(kPlanStart + 2 * kMaxRetryAfterMs * kNsPerMs, 80), 100) << "the promises of long ago count";
}

}  // namespace
}  // namespace baton::router
