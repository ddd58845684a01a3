#include "kvtransfer/read_grants.h"

#include "gtest/gtest.h"

namespace baton::kvtransfer {
namespace {

constexpr Id128 kOne{.high = 1, .low = 1};
constexpr Id128 kTwo{.high = 1, .low = 2};

bool MaySend(ReadGrants& grants, const Id128& fetch, const RegionRange& range) {
  if (!grants.BeginSend(fetch, range)) return false;
  grants.EndSend(fetch);
  return true;
}

TEST(ReadGrantsTest, EachFetchReadsWhatWasGrantedToIt) {
  ReadGrants grants;
  grants.Grant(kOne, {{100, 50}, {300, 50}});
  grants.Grant(kTwo, {{200, 50}});
  EXPECT_TRUE(MaySend(grants, kOne, {100, 50}));
  EXPECT_TRUE(MaySend(grants, kOne, {149, 1}));
  EXPECT_TRUE(MaySend(grants, kOne, {320, 30}));
  EXPECT_TRUE(MaySend(grants, kTwo, {200, 1}));
  for (const RegionRange& range : {RegionRange{99, 2}, {149, 2}, {150, 1}, {100, 250}, {200, 50}, {350, 1}, {0, 1}}) {
    EXPECT_FALSE(MaySend(grants, kOne, range)) << range.offset << " " << range.bytes;
  }
  EXPECT_FALSE(MaySend(grants, kTwo, {100, 50}));
  EXPECT_FALSE(MaySend(grants, kOne, {100, UINT64_MAX}));
  EXPECT_FALSE(MaySend(grants, kOne, {UINT64_MAX, 2}));
}

TEST(ReadGrantsTest, RangesThatTouchOrOverlapAreOne) {
  ReadGrants grants;
  grants.Grant(kOne, {{100, 50}});
  grants.Grant(kOne, {{200, 50}, {150, 50}});
  EXPECT_TRUE(MaySend(grants, kOne, {100, 150}));
  grants.Grant(kOne, {{50, 300}});
  EXPECT_TRUE(MaySend(grants, kOne, {50, 300}));
  grants.Grant(kOne, {{100, 10}});
  EXPECT_TRUE(MaySend(grants, kOne, {50, 300}));
  EXPECT_FALSE(MaySend(grants, kOne, {50, 301}));
}

TEST(ReadGrantsTest, NobodyReadsByTheZeroId) {
  ReadGrants grants;
  grants.Grant({}, {{0, 100}});
  EXPECT_FALSE(MaySend(grants, {}, {0, 100}));
}

TEST(ReadGrantsTest, WithdrawalEndsWithTheLastSendUnderWay) {
  ReadGrants grants;
  grants.Grant(kOne, {{0, 100}});
  grants.Grant(kTwo, {{0, 100}});
  ASSERT_TRUE(grants.BeginSend(kOne, {0, 10}));
  ASSERT_TRUE(grants.BeginSend(kOne, {10, 10}));
  EXPECT_FALSE(grants.Withdraw(kOne));
  EXPECT_FALSE(grants.BeginSend(kOne, {20, 10}));
  grants.EndSend(kOne);
  EXPECT_FALSE(grants.Withdraw(kOne));
  grants.EndSend(kOne);
  EXPECT_TRUE(grants.Withdraw(kOne));
  EXPECT_TRUE(grants.Withdraw(kOne));
  EXPECT_TRUE(MaySend(grants, kTwo, {0, 100}));
}

TEST(ReadGrantsTest, RefusalsAreCounted) {
  ReadGrants grants;
  grants.CountRefusal();
  grants.CountRefusal();
  EXPECT_EQ(grants.refusals(), 2);
}

}  // namespace
}  // namespace baton::kvtransfer
