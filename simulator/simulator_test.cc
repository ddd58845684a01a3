// The real cores of a whole cluster, on virtual time, over many seeds. BATON_SIM_SEED=n runs one seed and prints what
// happened; BATON_SIM_SEEDS=n sets how many are run, BATON_SIM_BASE_SEED=n the first of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "common/clock.h"
#include "simulator/cluster.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BATON_SLOW_BUILD 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BATON_SLOW_BUILD 1
#endif

namespace baton::simulator {
namespace {

#ifdef BATON_SLOW_BUILD
constexpr uint64_t kDefaultSeeds = 100;
#else
constexpr uint64_t kDefaultSeeds = 5'000;
#endif
// CI draws another base for every commit.
constexpr uint64_t kDefaultBaseSeed = 1;
// After this many failed seeds no further one is run.
constexpr int kMaxFailures = 3;
// A run of this many seeds meets every situation.
constexpr uint64_t kSeedsForAll = 500;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Seeds {
  uint64_t base = 0;
  uint64_t count = 0;
  // One seed is repeated and tells what happens.
  bool traces = false;
};

Seeds SeedsToRun() {
  const uint64_t only = FromEnvironment("BATON_SIM_SEED", 0);
  if (only > 0) return {.base = only, .count = 1, .traces = true};
  return {.base = std::max<uint64_t>(FromEnvironment("BATON_SIM_BASE_SEED", kDefaultBaseSeed), 1),
          .count = FromEnvironment("BATON_SIM_SEEDS", kDefaultSeeds)};
}

// The run under way, for a check of the cores that ends the process.
Seeds current;

void OnAbort(int) {
  std::fprintf(stderr, "found after %llu seeds\nBATON_SIM_SEED=%llu runs it again with a trace\n",
               static_cast<unsigned long long>(current.count), static_cast<unsigned long long>(current.base));
}

TEST(SimulatorTest, EveryRequestEndsOnceWithRightTokensOrAnErrorAndTheClusterHeals) {
  const Seeds seeds = SeedsToRun();
  std::signal(SIGABRT, OnAbort);
  const TimeNs began = MonotonicClock().Now();
  RunResult all;
  int failed = 0;
  for (uint64_t i = 0; i < seeds.count && failed < kMaxFailures; ++i) {
    const uint64_t seed = seeds.base + i;
    current = {.base = seed, .count = i + 1};
    const RunResult result = RunSeed({.seed = seed, .traces = seeds.traces});
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
  if (failed > 0 || seeds.count < kSeedsForAll) return;
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
