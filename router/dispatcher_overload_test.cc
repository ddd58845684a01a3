// Overload: what is refused, when clients are asked to come back, and what is served meanwhile.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "common/testing/slow_build.h"
#include "gtest/gtest.h"
#include "router/testing/load_world.h"

namespace baton::router {
namespace {

constexpr uint64_t kSeed = 11;
constexpr uint64_t kSweeps = kIsSlowBuild ? 1 : 4;
constexpr int kPromptTokens = 200;
constexpr int64_t kDeadlineMs = 2'000;
const double kCapacity = LoadWorld::CapacityPerSecond(kPromptTokens);

DispatcherOptions Options() {
  DispatcherOptions options;
  options.placing.ttft_target_ms = 1'500;
  return options;
}

struct Point {
  double load = 0;
  LoadResult hostile;
  LoadResult modest;
  double goodput_per_s = 0;
};

// The hostile tenant sends all but a fifth of the capacity, which is less than the modest one's share.
Point RunAt(double load, uint64_t seed) {
  constexpr int64_t kRunMs = 60'000;
  LoadWorld world(seed, Options());
  const double modest_per_s = 0.2 * kCapacity;
  world.Add({.tenant = "hostile",
             .requests_per_second = load * kCapacity - modest_per_s,
             .until_ms = kRunMs,
             .deadline_ms = kDeadlineMs});
  world.Add({.tenant = "modest", .requests_per_second = modest_per_s, .until_ms = kRunMs, .deadline_ms = kDeadlineMs});
  world.Run();
  Point point = {.load = load, .hostile = world.of("hostile"), .modest = world.of("modest")};
  point.goodput_per_s = (point.hostile.ok + point.modest.ok) / (kRunMs / 1e3);
  return point;
}

void SweepLoads(uint64_t seed) {
  std::printf("seed %d, capacity %.0f requests/s, deadline %d ms\n", static_cast<int>(seed), kCapacity,
              static_cast<int>(kDeadlineMs));
  std::printf("%5s %10s %8s %8s %12s | %12s %5s %11s\n", "load", "goodput/s", "refused", "failed", "hostile p99",
              "modest: sent", "ok", "p99 ms");
  double peak = 0;
  std::vector<Point> points;
  for (const double load : {0.5, 1.0, 1.5, 2.0, 3.0}) {
    const Point point = RunAt(load, seed);
    peak = std::max(peak, point.goodput_per_s);
    points.push_back(point);
    std::printf("%5.1f %10.1f %8d %8d %12.0f | %12d %5d %11.0f\n", load, point.goodput_per_s,
                point.hostile.refused + point.modest.refused, point.hostile.failed + point.modest.failed,
                point.hostile.WorstTtftMs(0.99), point.modest.sent, point.modest.ok, point.modest.WorstTtftMs(0.99));
  }
  EXPECT_GT(peak, 0.9 * kCapacity);
  EXPECT_GT(points.back().goodput_per_s, 0.9 * peak);
  for (const Point& point : points) {
    EXPECT_EQ(point.hostile.failed + point.modest.failed, 0) << "at " << point.load;
    EXPECT_GE(point.modest.ok, 0.99 * point.modest.sent) << "at " << point.load;
  }
}

TEST(DispatcherOverloadTest, GoodputHoldsAtThreeTimesTheCapacityAndNothingAcceptedFails) {
  for (uint64_t seed = kSeed; seed < kSeed + kSweeps; ++seed) SweepLoads(seed);
}

// With these deadlines late jobs go first, barely may not, and let others go first. A sanitizer's build
// runs the one at the border.
std::vector<int64_t> Deadlines() {
  if (kIsSlowBuild) return {6'500};
  return {4'000, 6'500, 8'000, 13'000, 30'000};
}

TEST(DispatcherOverloadTest, NothingAcceptedFailsWhileTheMachineIsSharedWhateverTheDeadlines) {
  for (const int32_t max_sequences : {4, 64}) {
    for (const int64_t deadline_ms : Deadlines()) {
      double peak = 0;
      double goodput = 0;
      for (const double load : {0.5, 1.0, 3.0}) {
        LoadWorld world(kSeed, Options(), {.max_sequences = max_sequences, .worst_slowdown = 2});
        world.Add({.tenant = "hostile",
                   .requests_per_second = load * kCapacity - 10,
                   .until_ms = 60'000,
                   .deadline_ms = deadline_ms});
        world.Add({.tenant = "modest", .requests_per_second = 4, .until_ms = 60'000, .deadline_ms = deadline_ms});
        world.Run();
        goodput = world.of("hostile").ok + world.of("modest").ok;
        peak = std::max(peak, goodput);
        std::printf("%d sequences, deadline %d ms, load %.1f: %.1f/s, failed %d and %d\n", max_sequences,
                    static_cast<int>(deadline_ms), load, goodput / 60, world.of("hostile").failed,
                    world.of("modest").failed);
        EXPECT_EQ(world.of("hostile").failed + world.of("modest").failed, 0);
        EXPECT_GE(world.of("modest").ok, 0.9 * world.of("modest").sent);
      }
      EXPECT_GT(goodput, 0.9 * peak);
    }
  }
}

// Each of the others wants less than its share and gets it first, so that a tenant's own line moves at a quarter of the
// pace.
TEST(DispatcherOverloadTest, NothingOfATenantFailsThatGetsWhatOthersLeave) {
  LoadWorld world(kSeed, Options());
  world.Add({.tenant = "hostile", .requests_per_second = 2 * kCapacity, .until_ms = 60'000, .deadline_ms = 4'000});
  for (const char* tenant : {"a", "b", "c", "d"}) {
    world.Add({.tenant = tenant, .requests_per_second = 0.19 * kCapacity, .until_ms = 60'000, .deadline_ms = 4'000});
  }
  world.Run();
  std::printf("of %d requests %d were served, %d failed\n", world.of("hostile").sent, world.of("hostile").ok,
              world.of("hostile").failed);
  EXPECT_EQ(world.of("hostile").failed, 0);
  EXPECT_GE(world.of("a").ok, 0.9 * world.of("a").sent);
}

TEST(DispatcherOverloadTest, OfTwoTenantsThatOverloadNeitherIsServedMuchMoreThanTheOther) {
  LoadWorld world(kSeed, Options());
  world.Add({.tenant = "greedy", .requests_per_second = 2.4 * kCapacity, .until_ms = 30'000, .deadline_ms = 2'000});
  world.Add({.tenant = "other", .requests_per_second = 0.8 * kCapacity, .until_ms = 30'000, .deadline_ms = 2'000});
  world.Run();
  const int64_t greedy = world.of("greedy").served_cost;
  const int64_t other = world.of("other").served_cost;
  std::printf("served: greedy %d, other %d\n", static_cast<int>(greedy), static_cast<int>(other));
  EXPECT_LT(std::abs(greedy - other), (greedy + other) / 10);
}

TEST(DispatcherOverloadTest, TheWaitOfABurstEndsWithTheWorkThatWasAccepted) {
  LoadWorld world(kSeed, Options());
  const double quiet = 0.5 * kCapacity;
  constexpr int64_t kBurstFrom = 10'000;
  constexpr int64_t kBurstUntil = 20'000;
  world.Add({.tenant = "all", .requests_per_second = quiet, .until_ms = 40'000, .deadline_ms = kDeadlineMs});
  world.Add({.tenant = "all",
             .requests_per_second = 2.5 * kCapacity,
             .from_ms = kBurstFrom,
             .until_ms = kBurstUntil,
             .deadline_ms = kDeadlineMs});
  int64_t recovered_ms = 0;
  std::function<void()> watch = [&] {
    if (recovered_ms == 0 && world.dispatcher().queued_jobs() == 0) recovered_ms = world.NowMs();
    if (world.NowMs() < 40'000) world.At(world.NowMs() + 10, watch);
  };
  world.At(kBurstUntil, watch);
  world.Run();
  std::printf("the line was empty %d ms after a burst of 10 s at 3 times the capacity\n",
              static_cast<int>(recovered_ms - kBurstUntil));
  EXPECT_EQ(world.of("all").failed, 0);
  // The line holds at most the deadline's time of work, and half of the capacity works it off.
  EXPECT_GT(recovered_ms, 0);
  EXPECT_LT(recovered_ms - kBurstUntil, 2 * kDeadlineMs + 500);
}

// Most placements are those of requests that come back, and every 30 s only one of two decode workers serves for 29 s.
// The longest of 300 requests waits for a third of its time.
TEST(DispatcherOverloadTest, NobodyWhoHasTimeEnoughIsRefusedInAStormOfKills) {
  constexpr int64_t kStormMs = kIsSlowBuild ? 120'000 : 600'000;
  constexpr int64_t kTimeMs = 600'000;
  LoadWorld world(kSeed, Options(), {.decode_workers = 2});
  world.Add({.tenant = "all",
             .until_ms = kStormMs,
             .prompt_tokens = 110,
             .max_tokens = 1'900,
             .deadline_ms = kTimeMs,
             .at_once = 300,
             .closed_loop = true});
  for (int64_t at_ms = 10'000; at_ms < kStormMs; at_ms += 30'000) world.At(at_ms, [&world] { world.KillOne(29'000); });
  world.Run();
  const LoadResult& result = world.of("all");
  std::printf("of %d requests %d were refused and %d failed; the longest waited %.0f of %d s\n", result.sent,
              result.refused, result.failed, result.WorstTtftMs(1) / 1e3, static_cast<int>(kTimeMs / 1'000));
  EXPECT_EQ(result.refused, 0);
  EXPECT_EQ(result.failed, 0);
  EXPECT_LT(result.WorstTtftMs(1), kTimeMs / 2.5);
}

TEST(DispatcherOverloadTest, ARefusedClientThatComesBackWhenToldFindsAPlace) {
  DispatcherOptions options = Options();
  options.max_queued_jobs = 64;
  LoadWorld world(kSeed, options);
  // Something to measure, then several times what the queue holds.
  world.Add({.tenant = "a", .at_once = 40});
  world.Add({.tenant = "b", .from_ms = 2'000, .comes_back = true, .at_once = 400});
  world.Run();
  const LoadResult& result = world.of("b");
  std::printf("of %d clients, %d were refused and came back; %d of these were refused again; all done after %d ms\n",
              result.sent, result.came_back, result.refused_again, static_cast<int>(result.last_end_ms));
  EXPECT_GT(result.came_back, 300);
  EXPECT_LE(result.refused_again, result.came_back / 20);
  EXPECT_EQ(result.failed, 0);
  // The workers never waited long for those who were to come back.
  const double work_ms = 1e3 * result.sent / kCapacity;
  EXPECT_LT(static_cast<double>(result.last_end_ms - 2'000), 1.4 * work_ms);
}

TEST(DispatcherOverloadTest, AClientRefusedForItsDeadlineThatComesBackWhenToldIsServed) {
  LoadWorld world(kSeed, Options());
  world.Add({.tenant = "a", .at_once = 40});
  world.Add({.tenant = "b", .from_ms = 2'000, .deadline_ms = kDeadlineMs, .comes_back = true, .at_once = 400});
  world.Run();
  const LoadResult& result = world.of("b");
  std::printf("of %d clients, %d were refused and came back; %d of these were refused again; %d failed\n", result.sent,
              result.came_back, result.refused_again, result.failed);
  EXPECT_GT(result.came_back, 200);
  EXPECT_LE(result.refused_again, result.came_back / 20);
  EXPECT_EQ(result.failed, 0);
}

}  // namespace
}  // namespace baton::router
