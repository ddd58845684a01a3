#include "router/dashboard_window.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace baton::router {
namespace {

constexpr Objective kWindowObjective = {.ttft_ms = 100, .itl_ms = 20};

EndedRequest Ended(RequestOutcome outcome, double ttft_ms, double itl_ms, double total_ms) {
  return {.outcome = outcome, .ttft_ms = ttft_ms, .itl_ms = itl_ms, .total_ms = total_ms};
}

TEST(DashboardWindowTest, AnEmptyWindowHasNoQuantilesAndNoGoodput) {
  DashboardWindow window(kWindowObjective);
  const WindowSummary summary = window.Summarize(kNsPerSecond);
  EXPECT_EQ(summary.requests, 0);
  EXPECT_FALSE(summary.ttft_ms.p50 || summary.ttft_ms.p99 || summary.goodput);
  EXPECT_DOUBLE_EQ(summary.window_s, 60);
}

TEST(DashboardWindowTest, QuantilesAreThoseOfTheSortedValues) {
  std::mt19937 random(7);  // NOLINT: the seed is fixed.
  for (const size_t size : {1u, 2u, 3u, 99u, 100u, 101u, 1000u}) {
    DashboardWindow window(kWindowObjective);
    std::vector<float> values;
    for (size_t i = 0; i < size; ++i) {
      values.push_back(static_cast<float>(random() % 10'000) / 8);
      window.Add(kNsPerSecond, Ended(RequestOutcome::kOk, values.back(), values.back() * 2, values.back() * 4));
    }
    std::sort(values.begin(), values.end());
    // The smallest value that so many per cent do not exceed.
    const auto exact = [&values](size_t percent) { return values[(values.size() * percent + 99) / 100 - 1]; };
    const WindowSummary summary = window.Summarize(kNsPerSecond);
    EXPECT_FLOAT_EQ(static_cast<float>(*summary.ttft_ms.p50), exact(50)) << size;
    EXPECT_FLOAT_EQ(static_cast<float>(*summary.ttft_ms.p99), exact(99)) << size;
    EXPECT_FLOAT_EQ(static_cast<float>(*summary.itl_ms.p99), exact(99) * 2) << size;
    EXPECT_FLOAT_EQ(static_cast<float>(*summary.e2e_ms.p50), exact(50) * 4) << size;
  }
}

TEST(DashboardWindowTest, RequestsLeaveTheWindowAfterAMinute) {
  DashboardWindow window(kWindowObjective);
  window.Add(0, Ended(RequestOutcome::kOk, 10, 1, 100));
  window.Add(kNsPerSecond, Ended(RequestOutcome::kOk, 30, 1, 100));
  EXPECT_EQ(window.Summarize(After(0, kDashboardWindowMs) - 1).requests, 2);
  const WindowSummary later = window.Summarize(After(0, kDashboardWindowMs));
  EXPECT_EQ(later.requests, 1);
  EXPECT_DOUBLE_EQ(*later.ttft_ms.p50, 30);
  EXPECT_EQ(window.Summarize(After(kNsPerSecond, kDashboardWindowMs)).requests, 0);
  EXPECT_EQ(window.size(), 0u);
}

TEST(DashboardWindowTest, GoodputIsTheShareWithinBothTargetsOfWhatClientsDidNotEnd) {
  DashboardWindow window(kWindowObjective);
  window.Add(0, Ended(RequestOutcome::kOk, 100, 20, 1));
  window.Add(0, Ended(RequestOutcome::kOk, 101, 20, 1));
  window.Add(0, Ended(RequestOutcome::kOk, 100, 21, 1));
  window.Add(0, Ended(RequestOutcome::kCancelled, 500, 500, 1));
  window.Add(0, Ended(RequestOutcome::kFailed, 1, 1, 1));
  window.Add(0, {.outcome = RequestOutcome::kRefused});
  // One token: there is no time between tokens.
  window.Add(0, {.outcome = RequestOutcome::kOk, .ttft_ms = 5, .total_ms = 5});
  const WindowSummary summary = window.Summarize(0);
  EXPECT_EQ(summary.requests, 7);
  EXPECT_EQ(summary.failed, 2);
  EXPECT_DOUBLE_EQ(*summary.goodput, 2.0 / 6);
  // Only what ended well has latencies.
  EXPECT_DOUBLE_EQ(*summary.ttft_ms.p99, 101);
  EXPECT_DOUBLE_EQ(*summary.itl_ms.p99, 21);
}

TEST(DashboardWindowTest, BeyondTheBoundTheWindowIsShorterAndSaysSo) {
  DashboardWindow window(kWindowObjective);
  for (size_t i = 0; i < kMaxDashboardWindow; ++i) window.Add(kNsPerSecond, Ended(RequestOutcome::kOk, 1, 1, 1));
  EXPECT_DOUBLE_EQ(window.Summarize(After(0, 11'000)).window_s, 60);
  window.Add(After(0, 11'000), Ended(RequestOutcome::kOk, 9, 1, 1));
  EXPECT_EQ(window.size(), kMaxDashboardWindow);
  const WindowSummary summary = window.Summarize(After(0, 11'000));
  EXPECT_EQ(summary.requests, static_cast<int64_t>(kMaxDashboardWindow));
  EXPECT_DOUBLE_EQ(summary.window_s, 10) << "one of those that ended ten seconds ago is missing";
}

}  // namespace
}  // namespace baton::router
