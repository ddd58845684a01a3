#include "engine/kernels/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "engine/kernels/dispatch.h"
#include "gtest/gtest.h"

namespace baton::engine::kernels {
namespace {

struct Relay {
  ThreadPool& pool;
  // Written by its own thread in each round, read by all others after the barrier.
  std::vector<int> rounds;
  std::atomic<int> errors{0};
};

constexpr int kRounds = 200;

void RunRelay(Relay& relay, int thread) {
  for (int round = 1; round <= kRounds; ++round) {
    relay.rounds[static_cast<size_t>(thread)] = round;
    relay.pool.Barrier();
    for (const int other : relay.rounds) relay.errors += other != round;
    relay.pool.Barrier();
  }
}

constexpr PoolCaller kCallers[] = {PoolCaller::kComputes, PoolCaller::kWaits};

TEST(ThreadPool, BarriersSeparateRoundsForAnyNumberOfThreads) {
  for (const PoolCaller caller : kCallers) {
    for (const int threads : {1, 2, 3, 8}) {
      ThreadPool pool(threads, caller);
      Relay relay{.pool = pool, .rounds = std::vector<int>(static_cast<size_t>(threads))};
      for (int job = 0; job < 5; ++job) pool.Run([&](int thread) { RunRelay(relay, thread); });
      EXPECT_EQ(relay.errors, 0) << threads;
    }
  }
}

TEST(ThreadPool, AJobCallsItsCallerAsOftenAsItLikes) {
  constexpr int kCalls = 50;
  for (const PoolCaller caller : kCallers) {
    ThreadPool pool(3, caller);
    const std::thread::id self = std::this_thread::get_id();
    for (int job = 1; job <= 3; ++job) {
      int calls = 0;
      std::atomic<int> errors{0};
      pool.Run([&](int thread) {
        for (int call = 1; call <= kCalls; ++call) {
          if (thread == 0) {
            pool.OnCaller([&] {
              errors += std::this_thread::get_id() != self;
              ++calls;
            });
          }
          pool.Barrier();
          errors += calls != call;
          pool.Barrier();
        }
      });
      EXPECT_EQ(errors, 0);
    }
  }
}

TEST(ThreadPool, ACallerThatWaitsComputesNothing) {
  ThreadPool pool(2, PoolCaller::kWaits);
  const std::thread::id self = std::this_thread::get_id();
  std::atomic<int> done{0};
  pool.Run([&](int) {
    EXPECT_NE(std::this_thread::get_id(), self);
    ++done;
  });
  EXPECT_EQ(done, 2);
}

TEST(ThreadPool, RunReturnsAfterEveryThreadAndRestoresTheCaller) {
  ThreadPool pool(4);
  std::vector<int> done(4);
  const volatile float tiny = 1e-38f;
  for (int i = 1; i <= 100; ++i) {
    pool.Run([&](int thread) { ++done[static_cast<size_t>(thread)]; });
    for (const int count : done) EXPECT_EQ(count, i);
  }
  EXPECT_GT(tiny * 0.01f, 0.0f);
}

cpu_set_t CoresOfThisThread() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  return cores;
}

// The core of each thread of a run, or -1 for a thread that may run on several.
std::vector<int> BoundCores(int threads) {
  ThreadPool pool(threads);
  std::vector<int> cores(static_cast<size_t>(threads));
  pool.Run([&](int thread) {
    const cpu_set_t mine = CoresOfThisThread();
    cores[static_cast<size_t>(thread)] = CPU_COUNT(&mine) == 1 ? sched_getcpu() : -1;
  });
  return cores;
}

TEST(ThreadPool, AsManyThreadsAsCoresHaveOneEach) {
  const cpu_set_t all = CoresOfThisThread();
  const int count = CPU_COUNT(&all);
  if (count < 2) GTEST_SKIP() << "this process may use one core";
  const std::vector<int> cores = BoundCores(count);
  EXPECT_EQ(std::set<int>(cores.begin(), cores.end()).size(), static_cast<size_t>(count));
  EXPECT_EQ(std::count(cores.begin(), cores.end(), -1), 0);
  // The caller has all of them back.
  const cpu_set_t after = CoresOfThisThread();
  EXPECT_TRUE(CPU_EQUAL(&all, &after));
}

TEST(ThreadPool, MoreThreadsThanCoresRunWhereTheSystemPutsThem) {
  const cpu_set_t all = CoresOfThisThread();
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "this process may use one core";
  const std::vector<int> cores = BoundCores(CPU_COUNT(&all) + 1);
  EXPECT_EQ(std::count(cores.begin(), cores.end(), -1), CPU_COUNT(&all) + 1);
}

TEST(ThreadPool, EveryThreadFlushesDenormals) {
  ThreadPool pool(3);
  std::vector<float> products(3, 1.0f);
  pool.Run([&](int thread) {
    const volatile float tiny = 1e-38f;
    products[static_cast<size_t>(thread)] = tiny * 0.01f;
  });
  for (const float product : products) EXPECT_EQ(product, 0.0f);
}

TEST(ThreadPool, EndsWithoutEverRunning) {
  for (const PoolCaller caller : kCallers) ThreadPool pool(5, caller);
}

}  // namespace
}  // namespace baton::engine::kernels
