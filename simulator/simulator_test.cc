// The real cores of a whole cluster, on virtual time, over many seeds. BATON_SIM_SEED=n runs one seed and prints what
// happened; BATON_SIM_SEEDS=n sets how many are run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

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
constexpr uint64_t kDefaultSeeds = 2'000;
#endif
// A planted bug must show within this many seeds.
constexpr uint64_t kSeedsWithBug = 300;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void Print(const Counts& counts) {
  std::cout << counts.ok << " ended well, " << counts.cancelled << " cancelled, " << counts.deadline
            << " past their deadline, " << counts.failed << " lost to a fault; " << counts.tokens << " tokens, "
            << counts.reads << " reads, " << counts.prefix_hits << " prefix hits, " << counts.preemptions
            << " preemptions, " << counts.retries << " retries, " << counts.local << " local prefills, "
            << counts.cut_streams << " cut streams, " << counts.events << " events\n";
}

TEST(SimulatorTest, EveryRequestEndsOnceWithRightTokensOrAnErrorAndLeavesNothing) {
  const uint64_t only = FromEnvironment("BATON_SIM_SEED", 0);
  const uint64_t seeds = FromEnvironment("BATON_SIM_SEEDS", kDefaultSeeds);
  Counts all;
  for (uint64_t seed = only > 0 ? only : 1; seed <= (only > 0 ? only : seeds); ++seed) {
    const RunResult result = RunSeed({.seed = seed, .traces = only > 0});
    all.Add(result.counts);
    ASSERT_EQ(result.error, "") << "seed " << seed << ": BATON_SIM_SEED=" << seed << " runs it again with a trace";
  }
  std::cout << (only > 0 ? 1 : seeds) << " seeds: ";
  Print(all);
  if (only > 0) return;
  // A run that never meets one of these tests less than it says.
  const int64_t some = static_cast<int64_t>(seeds) / 10;
  EXPECT_GT(all.ok, some * 50);
  EXPECT_GT(all.cancelled, some);
  EXPECT_GT(all.deadline, some);
  EXPECT_GT(all.failed, some);
  EXPECT_GT(all.preemptions, some);
  EXPECT_GT(all.prefix_hits, some);
  EXPECT_GT(all.retries, some);
  EXPECT_GT(all.local, some);
  EXPECT_GT(all.cut_streams, some);
}

TEST(SimulatorTest, ASeedRepeatsItsRun) {
  const RunResult first = RunSeed({.seed = 7});
  const RunResult second = RunSeed({.seed = 7});
  EXPECT_EQ(first.error, second.error);
  EXPECT_EQ(first.counts.events, second.counts.events);
  EXPECT_EQ(first.counts.tokens, second.counts.tokens);
}

struct Planted {
  PlantedBug bug;
  // Part of the error by which the bug is recognised.
  std::string sign;
  std::string name;
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedBugTest : public testing::TestWithParam<Planted> {};

TEST_P(PlantedBugTest, IsFound) {
  uint64_t found = 0;
  for (uint64_t seed = 1; seed <= kSeedsWithBug; ++seed) {
    const RunResult result = RunSeed({.seed = seed, .bug = GetParam().bug});
    if (result.error.find(GetParam().sign) == std::string::npos) {
      EXPECT_EQ(result.error, "") << "seed " << seed << ": fails, but not as the bug should make it";
      continue;
    }
    if (found++ == 0) std::cout << "seed " << seed << ": " << result.error << "\n";
  }
  std::cout << "found by " << found << " of " << kSeedsWithBug << " seeds\n";
  EXPECT_GT(found, 0u);
}

INSTANTIATE_TEST_SUITE_P(Simulator, PlantedBugTest,
                         testing::Values(Planted{PlantedBug::kLeaseIgnored, "DATA_LOSS", "LeaseIgnored"},
                                         Planted{PlantedBug::kFreedTwice, "token", "BlockFreedTwice"},
                                         Planted{PlantedBug::kResumedTooLate, "token", "ResumedAtTheWrongIndex"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton::simulator
