// Long runs with faults of all kinds, drawn by a seed each. By environment variables:
//   BATON_SIM_LONG_SEEDS=n       how many runs of 10 to 60 virtual seconds
//   BATON_SIM_THOUSAND_SEEDS=n   how many of 1,000
//   BATON_SIM_BASE_SEED=n        the first seed
//   BATON_SIM_ROUTERS=n          how many routers each run has, whatever its seed draws
//   BATON_SIM_KEPT=n             how many of a hundred requests of each run outlive their calls, likewise
//   BATON_SIM_RUN='long n ...'   repeats the run of that name (run_name.h) and prints what happens
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/usable_cores.h"
#include "simulator/cluster.h"
#include "simulator/run_name.h"
#include "simulator/seeds.h"
#include "simulator/shrink.h"

namespace baton::simulator {
namespace {

constexpr uint64_t kDefaultLongSeeds = kIsSlowBuild ? 40 : 4'000;
constexpr uint64_t kDefaultThousandSeeds = kIsSlowBuild ? 0 : 4;
// After this many failed seeds no further one is run.
constexpr int kMaxFailedRuns = 3;
constexpr int kMaxThreads = 2;
// So many runs meet every kind of fault.
constexpr uint64_t kRunsForAllKinds = 400;

// What happened, without the numbers that are other ones in a smaller run.
std::string WithoutNumbers(const std::string& error) {
  std::string kind;
  for (size_t i = 0; i < error.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(error[i]);
    if (std::isxdigit(c) == 0) kind.push_back(error[i]);
  }
  return kind;
}

// The run of this thread, and the number of its seed, for a check of the cores that ends the process.
thread_local std::string run_under_way;
thread_local uint64_t seeds_under_way = 0;

void OnAbortOfRun(int) {
  std::fprintf(stderr, "found after %llu seeds\nBATON_SIM_RUN='%s' runs it again with a trace\n",
               static_cast<unsigned long long>(seeds_under_way), run_under_way.c_str());
}

struct Sum {
  Counts counts;
  std::array<int64_t, kFaultKinds> struck = {};
  int64_t least_struck = INT64_MAX;
  int64_t longest_life_ns = 0;
  int64_t longest_end_ns = 0;
  double virtual_seconds = 0;
  std::map<uint64_t, std::string> errors;

  void Add(uint64_t seed, const RunResult& result) {
    counts.Add(result.counts);
    int64_t all = 0;
    for (size_t kind = 0; kind < kFaultKinds; ++kind) {
      struck[kind] += result.struck[kind];
      all += result.struck[kind];
    }
    least_struck = std::min(least_struck, all);
    longest_life_ns = std::max(longest_life_ns, result.longest_life_ns);
    longest_end_ns = std::max(longest_end_ns, result.end_ns);
    virtual_seconds += NsToMs(result.virtual_ns) / 1'000;
    if (!result.error.empty()) errors[seed] = result.error;
  }
};

// Runs are independent, so threads share them. What is found does not depend on how many threads there are, unless
// there are more failures than are reported.
Sum RunAll(RunKind kind, uint64_t base, uint64_t count) {
  Sum sum;
  absl::Mutex mutex;
  std::atomic<uint64_t> next = 0;
  std::atomic<int> failed = 0;
  const auto work = [&] {
    for (uint64_t i = next++; i < count && failed < kMaxFailedRuns; i = next++) {
      const RunOptions options = {
          .seed = base + i, .kind = kind, .routers = ForcedRouters(), .kept_percent = ForcedKept()};
      run_under_way = NameOfRun(options);
      seeds_under_way = i + 1;
      const RunResult result = RunSeed(options);
      if (!result.error.empty()) ++failed;
      absl::MutexLock lock(&mutex);
      sum.Add(options.seed, result);
    }
  };
  std::vector<std::thread> threads;
  const int count_threads = std::min(CountUsableCores(), kMaxThreads);
  for (int i = 0; i < count_threads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return sum;
}

void Report(RunKind kind, uint64_t seed, const std::string& error) {
  const RunOptions options = {.seed = seed, .kind = kind, .routers = ForcedRouters(), .kept_percent = ForcedKept()};
  ADD_FAILURE() << error << "\nBATON_SIM_RUN='" << NameOfRun(options) << "' runs it again with a trace";
  std::string smallest = error;
  const auto fails = [&](const RunOptions& smaller) {
    const std::string found = RunSeed(smaller).error;
    if (WithoutNumbers(found) != WithoutNumbers(error)) return false;
    smallest = found;
    return true;
  };
  const RunOptions shrunk = Shrink(options, RunSeed(options), fails);
  std::cout << "shrunk: BATON_SIM_RUN='" << NameOfRun(shrunk) << "'\n        " << smallest << "\n";
}

void RunSeeds(RunKind kind, uint64_t count) {
  const uint64_t base = BaseSeed();
  std::signal(SIGABRT, OnAbortOfRun);
  const TimeNs began = MonotonicClock().Now();
  const Sum sum = RunAll(kind, base, count);
  const double seconds = NsToMs(MonotonicClock().Now() - began) / 1'000;
  std::cout << count << " runs from BATON_SIM_BASE_SEED=" << base << ", " << sum.virtual_seconds
            << " virtual seconds in " << seconds << " s, " << static_cast<double>(sum.counts.events) / seconds / 1e6
            << " million events a second\nfaults:";
  for (size_t fault = 0; fault < kFaultKinds; ++fault) {
    std::cout << " " << sum.struck[fault] << " " << NameOf(static_cast<FaultKind>(fault)) << ",";
  }
  std::cout << " at least " << sum.least_struck << " a run\n"
            << sum.counts.ToString() << "; no request lived longer than " << NsToMs(sum.longest_life_ns)
            << " ms, or than " << NsToMs(sum.longest_end_ns) << " ms after the last fault\n";
  // The least of them, whichever thread was first.
  if (!sum.errors.empty()) std::cout << "found after " << sum.errors.begin()->first - base + 1 << " seeds" << std::endl;
  for (const auto& [seed, error] : sum.errors) Report(kind, seed, error);
  if (!sum.errors.empty()) return;
  EXPECT_GE(sum.least_struck, kMinFaults);
  if (count < kRunsForAllKinds || ForcedKept() >= 0) return;
  for (size_t fault = 0; fault < kFaultKinds; ++fault) {
    EXPECT_GT(sum.struck[fault], static_cast<int64_t>(count / 20)) << NameOf(static_cast<FaultKind>(fault));
  }
}

TEST(LongRunTest, EveryRequestEndsOnceWithRightTokensOrACauseThroughFaultsOfAllKinds) {
  if (const char* name = std::getenv("BATON_SIM_RUN")) {
    absl::StatusOr<RunOptions> options = ParseRunName(name);
    ASSERT_TRUE(options.ok()) << options.status();
    options->traces = true;
    EXPECT_EQ(RunSeed(*options).error, "");
    return;
  }
  RunSeeds(RunKind::kLong, SeedsOr("BATON_SIM_LONG_SEEDS", kDefaultLongSeeds));
}

TEST(LongRunTest, EveryRequestEndsLikewiseInAThousandSeconds) {
  const uint64_t count = SeedsOr("BATON_SIM_THOUSAND_SEEDS", kDefaultThousandSeeds);
  if (count > 0) RunSeeds(RunKind::kThousandSeconds, count);
}

TEST(LongRunTest, ASeedRepeatsItsRunToTheLastEvent) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const RunOptions options = {.seed = seed, .kind = RunKind::kLong, .left_out_faults = {1}, .jitter = seed % 2};
    const RunResult first = RunSeed(options);
    const RunResult second = RunSeed(options);
    EXPECT_EQ(first.error, second.error);
    EXPECT_EQ(first.counts.ToString(), second.counts.ToString());
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
    EXPECT_EQ(first.struck, second.struck);
  }
}

}  // namespace
}  // namespace baton::simulator
