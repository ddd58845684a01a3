// The real cores of a whole cluster, on virtual time, over many seeds. BATON_SIM_SEED=n runs one seed and prints what
// happened; BATON_SIM_SEEDS=n sets how many are run, BATON_SIM_BASE_SEED=n the first of them, BATON_SIM_ROUTERS=n
// how many routers each run has, and BATON_SIM_KEPT=n how many of a hundred requests outlive their calls, whatever its
// seed draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>

#include "common/clock.h"
#include "common/log.h"
#include "simulator/cluster.h"
#include "simulator/seeds.h"

namespace baton::simulator {
namespace {

constexpr uint64_t kDefaultSeeds = kIsSlowBuild ? 100 : 5'000;
// After this many failed seeds no further one is run.
constexpr int kMaxFailures = 3;
// A run of this many seeds meets every situation.
constexpr uint64_t kSeedsForAll = 500;

struct Seeds {
  uint64_t base = 0;
  uint64_t count = 0;
  // One seed is repeated and tells what happens.
  bool traces = false;
};

Seeds SeedsToRun() {
  const uint64_t only = SeedsOr("BATON_SIM_SEED", 0);
  if (only > 0) return {.base = only, .count = 1, .traces = true};
  return {.base = BaseSeed(), .count = SeedsOr("BATON_SIM_SEEDS", kDefaultSeeds)};
}

// The run under way, for a check of the cores that ends the process.
Seeds current;

void OnAbort(int) {
  std::fprintf(stderr, "found after %llu seeds\nBATON_SIM_SEED=%llu runs it again with a trace\n",
               static_cast<unsigned long long>(current.count), static_cast<unsigned long long>(current.base));
}

// The log of the cores is no part of what a run says.
class WithoutLog : public ::testing::Environment {
 public:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};
[[maybe_unused]] const auto* const kWithoutLog = ::testing::AddGlobalTestEnvironment(new WithoutLog);

TEST(SimulatorTest, EveryRequestEndsOnceWithRightTokensOrAnErrorAndTheClusterHeals) {
  const Seeds seeds = SeedsToRun();
  std::signal(SIGABRT, OnAbort);
  const TimeNs began = MonotonicClock().Now();
  RunResult all;
  int failed = 0;
  for (uint64_t i = 0; i < seeds.count && failed < kMaxFailures; ++i) {
    const uint64_t seed = seeds.base + i;
    current = {.base = seed, .count = i + 1};
    const RunResult result =
        RunSeed({.seed = seed, .traces = seeds.traces, .routers = ForcedRouters(), .kept_percent = ForcedKept()});
    EXPECT_EQ(result.error, "") << "seed " << seed << ": BATON_SIM_SEED=" << seed << " runs it again with a trace";
    if (!result.error.empty() && failed++ == 0) std::cout << "found after " << i + 1 << " seeds\n";
    all.counts.Add(result.counts);
    all.longest_wait_ns = std::max(all.longest_wait_ns, result.longest_wait_ns);
    all.most_attempts = std::max(all.most_attempts, result.most_attempts);
  }
  const double seconds = NsToMs(MonotonicClock().Now() - began) / 1'000;
  std::cout << seeds.count << " seeds from BATON_SIM_BASE_SEED=" << seeds.base << " in " << seconds << " s, "
            << static_cast<double>(all.counts.events) / seconds / 1e6
            << " million events a second: " << all.counts.ToString() << "; without trouble nobody waited longer than "
            << NsToMs(all.longest_wait_ns) << " ms or was placed more than " << all.most_attempts << " times\n";
  if (failed > 0 || seeds.count < kSeedsForAll || ForcedRouters() > 0 || ForcedKept() >= 0) return;
  // A run that never meets one of these tests less than it says.
  for (const NamedCount& count : NamedCounts()) {
    EXPECT_GT(all.counts.*count.value, static_cast<int64_t>(seeds.count / 50)) << count.name;
  }
}

TEST(SimulatorTest, ASeedRepeatsItsRun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RunResult first = RunSeed({.seed = seed});
    const RunResult second = RunSeed({.seed = seed});
    EXPECT_EQ(first.error, second.error);
    EXPECT_EQ(first.counts.ToString(), second.counts.ToString());
  }
}

}  // namespace
}  // namespace baton::simulator
