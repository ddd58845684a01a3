#include "simulator/shrink.h"

#include <gtest/gtest.h>

#include "simulator/run_name.h"

namespace baton::simulator {
namespace {

TEST(RunNameTest, ARunHasANameByWhichItIsFoundAgain) {
  const RunOptions options = {
      .seed = 17, .kind = RunKind::kLong, .left_out_faults = {0, 2, 3, 4}, .left_out_requests = {7}, .jitter = 2};
  const std::string name = NameOfRun(options);
  EXPECT_EQ(name, "long 17 jitter 2 without-faults 0,2-4 without-requests 7");
  const auto parsed = ParseRunName(name);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(NameOfRun(*parsed), name);
  EXPECT_EQ(NameOfRun({.seed = 1}), "short 1");
  EXPECT_EQ(NameOfRun({.seed = 1, .routers = 2}), "short 1 routers 2");
  EXPECT_EQ(ParseRunName("short 1 routers 2")->routers, 2);
  EXPECT_EQ(NameOfRun({.seed = 1, .kept_percent = 0}), "short 1 kept 0");
  EXPECT_EQ(ParseRunName("short 1 kept 100")->kept_percent, 100);
  EXPECT_EQ(ParseRunName("short 1")->kept_percent, -1);
  EXPECT_EQ(NameOfRun({.seed = 1, .kind = RunKind::kThousandSeconds}), "thousand 1");
}

TEST(RunNameTest, WhatIsNoNameIsRefused) {
  for (const char* name :
       {"", "long", "long x", "wide 1", "long 1 jitter", "long 1 without-faults 3-", "long 1 x 2",
        "long 1 without-requests a", "long 1 routers 0", "long 1 kept 101", "long 1 without-faults -1"}) {
    EXPECT_FALSE(ParseRunName(name).ok()) << name;
  }
}

TEST(ShrinkTest, AFailureIsReducedToTheFaultsAndRequestsThatItNeeds) {
  const RunResult result = {.planned_faults = 12, .planned_requests = 90};
  const auto fails = [](const RunOptions& run) {
    const auto has = [](const std::set<int>& left_out, int number) { return !left_out.contains(number); };
    return has(run.left_out_faults, 3) && has(run.left_out_faults, 11) && has(run.left_out_requests, 41);
  };
  const RunOptions shrunk = Shrink({.seed = 5, .kind = RunKind::kLong}, result, fails);
  EXPECT_EQ(NameOfRun(shrunk), "long 5 without-faults 0-2,4-10 without-requests 0-40,42-89");
}

TEST(ShrinkTest, AFailureThatNeedsAnotherCourseOfTheRestIsStillReduced) {
  const RunResult result = {.planned_faults = 2, .planned_requests = 0};
  // Without the other fault it fails only with this jitter.
  const auto fails = [](const RunOptions& run) {
    return !run.left_out_faults.contains(1) && (run.left_out_faults.empty() || run.jitter == 2);
  };
  const RunOptions shrunk = Shrink({.seed = 5, .kind = RunKind::kLong}, result, fails);
  EXPECT_EQ(NameOfRun(shrunk), "long 5 jitter 2 without-faults 0");
}

TEST(ShrinkTest, ItEndsWhereEverythingFails) {
  int runs = 0;
  const RunResult result = {.planned_faults = 50, .planned_requests = 5'000};
  const auto fails = [&runs](const RunOptions& run) { return ++runs, run.left_out_requests.size() < 1; };
  Shrink({.seed = 5, .kind = RunKind::kLong}, result, fails);
  EXPECT_LE(runs, kMaxShrinkingRuns);
}

}  // namespace
}  // namespace baton::simulator
