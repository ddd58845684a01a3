#include "router/refused_workers.h"

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

RefusedWorker RefusedAt(const std::string& target, const std::string& why, TimeNs at) {
  return {.target = target, .role = "decode", .model = "other", .pid = 7, .why = why, .asked_at = at};
}

TEST(RefusedWorkersTest, ARefusalIsNewsOnceForEachReason) {
  RefusedWorkers refused;
  EXPECT_TRUE(refused.Add(RefusedAt("a:1", "model", 0)));
  EXPECT_FALSE(refused.Add(RefusedAt("a:1", "model", kNsPerSecond)));
  EXPECT_TRUE(refused.Add(RefusedAt("a:1", "version", 2 * kNsPerSecond)));
  EXPECT_TRUE(refused.Add(RefusedAt("b:1", "version", 2 * kNsPerSecond)));
}

TEST(RefusedWorkersTest, AWorkerThatAsksNoMoreIsGoneAndNewsWhenItComesBack) {
  RefusedWorkers refused;
  const TimeNs gone = After(0, RefusedWorkers::kGoneMs);
  refused.Add(RefusedAt("a:1", "model", 0));
  ASSERT_EQ(refused.Present(gone - 1).size(), 1u);
  EXPECT_EQ(refused.Present(gone - 1)[0].pid, 7);
  EXPECT_TRUE(refused.Present(gone).empty());
  EXPECT_TRUE(refused.Add(RefusedAt("a:1", "model", gone)));
}

TEST(RefusedWorkersTest, AWorkerThatJoinsIsRefusedNoMore) {
  RefusedWorkers refused;
  refused.Add(RefusedAt("a:1", "model", 0));
  refused.Forget("a:1");
  EXPECT_TRUE(refused.Present(0).empty());
}

TEST(RefusedWorkersTest, BeyondTheBoundTheWorkerThatAskedLongestAgoMakesRoom) {
  RefusedWorkers refused;
  for (int i = 0; i <= kMaxWorkers; ++i) refused.Add(RefusedAt(absl::StrCat("a:", i), "model", i == 5 ? 0 : 1));
  EXPECT_EQ(refused.Present(1).size(), static_cast<size_t>(kMaxWorkers));
  EXPECT_TRUE(refused.Add(RefusedAt("a:5", "model", 1))) << "it made room";
}

}  // namespace
}  // namespace baton::router
