#include "telemetry/export_retry.h"

#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

constexpr int64_t kTotalMs = 30'000;

SendResult Unavailable(std::optional<int64_t> retry_after_ms = std::nullopt) {
  return {.status = absl::UnavailableError("gone"), .retryable = true, .retry_after_ms = retry_after_ms};
}

TEST(ExportRetry, WaitsLongerEachTimeWithJitterAndWithinATotal) {
  SeededRandom random(3);
  ExportRetry retry(0, kTotalMs, random);
  TimeNs now = 0;
  int64_t backoff_ms = kFirstRetryMs;
  int waits = 0;
  while (const std::optional<int64_t> wait_ms = retry.WaitMs(Unavailable(), now)) {
    EXPECT_GE(*wait_ms, backoff_ms / 2);
    EXPECT_LE(*wait_ms, backoff_ms);
    now = After(now, *wait_ms);
    backoff_ms = std::min(2 * backoff_ms, kMaxRetryMs);
    ++waits;
  }
  EXPECT_LT(now, After(0, kTotalMs));
  EXPECT_GE(now, After(0, kTotalMs - kMaxRetryMs)) << "it gives up only when the next wait would be too long";
  EXPECT_GE(waits, 6);
}

TEST(ExportRetry, ProcessesThatFailedTogetherDoNotComeBackTogether) {
  SeededRandom one(1);
  SeededRandom two(2);
  ExportRetry first(0, kTotalMs, one);
  ExportRetry second(0, kTotalMs, two);
  bool differ = false;
  for (int i = 0; i < 4; ++i) differ = differ || first.WaitMs(Unavailable(), 0) != second.WaitMs(Unavailable(), 0);
  EXPECT_TRUE(differ);
}

TEST(ExportRetry, TheCollectorMayAskForMoreTimeButNotForLess) {
  SeededRandom random(3);
  ExportRetry retry(0, kTotalMs, random);
  EXPECT_EQ(retry.WaitMs(Unavailable(12'345), 0), 12'345);
  EXPECT_GE(retry.WaitMs(Unavailable(0), 0), kFirstRetryMs / 2);
  EXPECT_EQ(retry.WaitMs(Unavailable(kTotalMs), 0), std::nullopt) << "longer than the batch may wait";
}

TEST(ExportRetry, WhatCannotWorkIsNotRepeated) {
  SeededRandom random(3);
  ExportRetry retry(0, kTotalMs, random);
  EXPECT_EQ(retry.WaitMs({.status = absl::InvalidArgumentError("bad")}, 0), std::nullopt);
}

TEST(ExportRetry, ATryEndsWithTheTotal) {
  SeededRandom random(3);
  const ExportRetry retry(0, kTotalMs, random);
  EXPECT_EQ(retry.TryMs(0, 10'000), 10'000);
  EXPECT_EQ(retry.TryMs(After(0, 25'000), 10'000), 5'000);
  EXPECT_EQ(retry.TryMs(After(0, 99'000), 10'000), 1);
}

}  // namespace
}  // namespace baton::telemetry
