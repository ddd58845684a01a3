#include "router/client_work.h"

#include <chrono>
#include <cstdint>
#include <cstdio>

#include "absl/synchronization/notification.h"
#include "common/limits.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

constexpr Id128 kBusy = {.high = 1, .low = 0};

// Both lanes are idle until Occupy.
class ClientWorkTest : public ::testing::Test {
 protected:
  ~ClientWorkTest() override { release_.Notify(); }

  // The lane of requests of this size has a task that runs until the end of the test.
  void Occupy(size_t bytes) {
    absl::Notification running;
    EXPECT_TRUE(work_.Post({.id = kBusy, .bytes = bytes, .run = [&](const absl::Status&) {
                              running.Notify();
                              release_.WaitForNotification();
                            }}));
    running.WaitForNotification();
  }
  bool Post(size_t bytes) {
    return work_.Post({.id = {.high = 2, .low = ++posted_}, .bytes = bytes, .run = [](const absl::Status&) {}});
  }
  // How many requests of this size the lane takes until it refuses.
  int64_t Fill(size_t bytes) {
    int64_t taken = 0;
    while (Post(bytes)) ++taken;
    return taken;
  }

  ManualClock clock_;
  absl::Notification release_;
  uint64_t posted_ = 0;
  ClientWork work_{clock_};
};

TEST_F(ClientWorkTest, ASmallRequestDoesNotWaitForALargeOne) {
  Occupy(kMaxSmallRequestBytes + 1);
  absl::Notification done;
  EXPECT_TRUE(work_.Post({.id = {.high = 3, .low = 3}, .bytes = kMaxSmallRequestBytes, .run = [&](const absl::Status&) {
                            done.Notify();
                          }}));
  done.WaitForNotification();
}

TEST_F(ClientWorkTest, LargeRequestsThatWaitLeaveRoomForSmallOnes) {
  Occupy(kMaxSmallRequestBytes + 1);
  const size_t each = (1u << 20) - WorkPool::kBytesPerTask;
  EXPECT_EQ(Fill(each), static_cast<int64_t>(kMaxQueuedLargeRequestBytes >> 20));
  EXPECT_TRUE(Post(1));
}

TEST_F(ClientWorkTest, TakesSmallRequestsUpToTheirBound) {
  Occupy(1);
  const size_t each = (16u << 10) - WorkPool::kBytesPerTask;
  EXPECT_EQ(Fill(each), static_cast<int64_t>(kMaxQueuedSmallRequestBytes / (16u << 10)));
}

// As many wait as ever can.
TEST_F(ClientWorkTest, ARefusalTakesFarLessThanAMillisecondHoweverManyWait) {
  constexpr int kRefusals = 1'000;
  const auto mean_us = [this](size_t bytes) {
    const auto began = std::chrono::steady_clock::now();
    for (int n = 0; n < kRefusals; ++n) EXPECT_FALSE(Post(bytes));
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / kRefusals;
  };
  Occupy(1);
  Occupy(kMaxSmallRequestBytes + 1);
  const int64_t small = Fill(1);
  const int64_t large = Fill(kMaxSmallRequestBytes + 1);
  const double small_us = mean_us(1);
  const double large_us = mean_us(kMaxMessageBytes);
  std::printf("unoptimized: %.2f us with %d small requests waiting, %.2f us with %d large ones\n", small_us,
              static_cast<int>(small), large_us, static_cast<int>(large));
  // A hundred times what it takes.
  EXPECT_LT(small_us, 1'000);
  EXPECT_LT(large_us, 1'000);
}

TEST_F(ClientWorkTest, ARequestOfEitherSizeCanBeDropped) {
  Occupy(1);
  EXPECT_TRUE(Post(1));
  EXPECT_TRUE(work_.Drop({.high = 2, .low = 1}));
  EXPECT_FALSE(work_.Drop({.high = 2, .low = 1}));
  EXPECT_FALSE(work_.Drop(kBusy));
}

}  // namespace
}  // namespace baton::router
