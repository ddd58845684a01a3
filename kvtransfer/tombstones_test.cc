#include "kvtransfer/tombstones.h"

#include "gtest/gtest.h"
#include "kvtransfer/testing/describe_handoff.h"

namespace baton::kvtransfer {
namespace {

TEST(TombstonesTest, OldestGoFirstAndExpiredOnesGoAtAll) {
  Tombstones tombstones(3);
  for (uint64_t job = 1; job <= 4; ++job) tombstones.Add(KeyOf(job), 100, 0);
  EXPECT_EQ(tombstones.size(), 3u);
  EXPECT_FALSE(tombstones.Contains(KeyOf(1), 0));
  EXPECT_TRUE(tombstones.Contains(KeyOf(2), 99));
  EXPECT_FALSE(tombstones.Contains(KeyOf(2), 100));
  tombstones.Add(KeyOf(2), 300, 0);
  EXPECT_EQ(tombstones.size(), 3u);
  tombstones.Add(KeyOf(5), 300, 100);
  EXPECT_TRUE(tombstones.Contains(KeyOf(5), 100));
  EXPECT_LE(tombstones.size(), 3u);
}

}  // namespace
}  // namespace baton::kvtransfer
