#include "router/tenant_buckets.h"

#include <algorithm>
#include <string>

#include "common/random.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

constexpr TimeNs kBucketStart = 1'000 * kNsPerSecond;

class TenantBucketsTest : public ::testing::Test {
 protected:
  // Whether the request was taken.
  bool Send(TimeNs now, const std::string& tenant, int64_t cost) {
    if (buckets_.WaitNs(now, tenant, cost) > 0) return false;
    buckets_.Take(now, tenant, cost);
    return true;
  }

  TenantBuckets buckets_{{.tokens_per_second = 100, .burst_tokens = 500}};
};

TEST_F(TenantBucketsTest, WithoutARateThereIsNoBound) {
  TenantBuckets buckets({});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(buckets.WaitNs(kBucketStart, "a", 1 << 30), 0);
    EXPECT_EQ(buckets.Take(kBucketStart, "a", 1 << 30), 0);
  }
  EXPECT_EQ(buckets.size(), 0u);
}

TEST_F(TenantBucketsTest, ATenantGetsItsBurstAndThenWhatFlowsIn) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Send(kBucketStart, "a", 100)) << i;
  EXPECT_FALSE(Send(kBucketStart, "a", 1));
  EXPECT_FALSE(Send(kBucketStart + kNsPerSecond / 2, "a", 100));
  EXPECT_TRUE(Send(kBucketStart + kNsPerSecond + kNsPerMs, "a", 100));
  EXPECT_FALSE(Send(kBucketStart + kNsPerSecond + kNsPerMs, "a", 100));
}

TEST_F(TenantBucketsTest, OneTenantUsesNothingUpForAnother) {
  EXPECT_TRUE(Send(kBucketStart, "a", 500));
  EXPECT_FALSE(Send(kBucketStart, "a", 100));
  EXPECT_TRUE(Send(kBucketStart, "b", 500));
}

TEST_F(TenantBucketsTest, WhoWaitsAsLongAsToldHasItsTokensAndNotSooner) {
  SeededRandom random(7);
  TimeNs now = kBucketStart;
  for (int i = 0; i < 1'000; ++i) {
    const auto cost = static_cast<int64_t>(1 + random.Below(700));
    const int64_t wait_ns = buckets_.WaitNs(now, "a", cost);
    const int64_t too_early_ns = std::max<int64_t>(wait_ns - kNsPerMs, 0);
    EXPECT_EQ(buckets_.WaitNs(now + too_early_ns, "a", cost) > 0, wait_ns > 0) << i;
    now += wait_ns;
    ASSERT_TRUE(Send(now, "a", cost)) << i;
  }
}

TEST_F(TenantBucketsTest, ARequestAsLargeAsTheBucketWaitsUntilItIsFull) {
  EXPECT_TRUE(Send(kBucketStart, "a", 100));
  EXPECT_NEAR(static_cast<double>(buckets_.WaitNs(kBucketStart, "a", 10'000)), kNsPerSecond, 10);
  EXPECT_TRUE(Send(kBucketStart + kNsPerSecond + 10, "a", 10'000));
}

TEST_F(TenantBucketsTest, WhatARequestDidNotUseComesBackAndWhatItUsedBeyondIsOwed) {
  const int64_t taken = buckets_.Take(kBucketStart, "a", 10'000);
  EXPECT_EQ(taken, 500);
  buckets_.Settle(kBucketStart, "a", taken, 100);
  EXPECT_TRUE(Send(kBucketStart, "a", 400));
  buckets_.Settle(kBucketStart, "a", 400, 600);
  EXPECT_NEAR(static_cast<double>(buckets_.WaitNs(kBucketStart, "a", 500)), 7.0 * kNsPerSecond, 10);
}

TEST_F(TenantBucketsTest, WhatComesBackFillsABucketToItsBrimAtMost) {
  buckets_.Take(kBucketStart, "a", 100);
  buckets_.Settle(kBucketStart + 10 * kNsPerSecond, "a", 100, 0);
  EXPECT_TRUE(Send(kBucketStart + 10 * kNsPerSecond, "a", 500));
  EXPECT_FALSE(Send(kBucketStart + 10 * kNsPerSecond, "a", 50));
}

TEST_F(TenantBucketsTest, FullBucketsAreForgottenAndTheirNumberIsBounded) {
  for (size_t i = 0; i <= TenantBuckets::kMaxBuckets; ++i) {
    buckets_.Take(kBucketStart, std::to_string(i), i == 0 ? 500 : 100);
  }
  EXPECT_EQ(buckets_.size(), TenantBuckets::kMaxBuckets);
  EXPECT_GT(buckets_.WaitNs(kBucketStart, "0", 100), 0) << "the emptiest bucket is forgotten";
  buckets_.Take(kBucketStart + 10 * kNsPerSecond, "a", 100);
  EXPECT_EQ(buckets_.size(), 1u);
}

}  // namespace
}  // namespace baton::router
