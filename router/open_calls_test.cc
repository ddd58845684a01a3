#include "router/open_calls.h"

#include "common/limits.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

struct FakeCall final : public OpenCalls::Stream {
  void EndIdle() override { ++ended; }
  int ended = 0;
};

class OpenCallsTest : public ::testing::Test {
 protected:
  void SweepAfterMs(int64_t ms) {
    clock_.AdvanceMs(ms);
    calls_.Sweep();
  }

  ManualClock clock_;
  OpenCalls calls_{kMaxIdleStreamMs, clock_};
  FakeCall a_;
  FakeCall b_;
};

TEST_F(OpenCallsTest, ACallWithoutARequestIsEndedAtTheBoundAndNotBefore) {
  calls_.Begin(a_);
  SweepAfterMs(kMaxIdleStreamMs - 1);
  EXPECT_EQ(a_.ended, 0);
  SweepAfterMs(1);
  EXPECT_EQ(a_.ended, 1);
  SweepAfterMs(kMaxIdleStreamMs);
  EXPECT_EQ(a_.ended, 1);
}

TEST_F(OpenCallsTest, ACallWithARequestIsNeverEndedHoweverLongItRuns) {
  calls_.Begin(a_);
  calls_.Begin(b_);
  calls_.SetBusy(a_);
  SweepAfterMs(3 * int64_t{kMaxIdleStreamMs});
  EXPECT_EQ(a_.ended, 0);
  EXPECT_EQ(b_.ended, 1);
}

TEST_F(OpenCallsTest, TheTimeCountsAnewFromTheEndOfTheLastRequest) {
  calls_.Begin(a_);
  calls_.Begin(b_);
  SweepAfterMs(kMaxIdleStreamMs - 1);
  calls_.SetBusy(a_);
  calls_.SetIdle(a_);
  calls_.SetIdle(b_);
  SweepAfterMs(1);
  EXPECT_EQ(a_.ended, 0);
  EXPECT_EQ(b_.ended, 1) << "it was idle before";
  SweepAfterMs(kMaxIdleStreamMs - 2);
  EXPECT_EQ(a_.ended, 0);
  SweepAfterMs(1);
  EXPECT_EQ(a_.ended, 1);
}

TEST_F(OpenCallsTest, OpenCallsAreWaitedForAtMostForTheTime) {
  calls_.Begin(a_);
  calls_.Begin(b_);
  EXPECT_EQ(calls_.AwaitNone(0), 2u);
  calls_.SetBusy(a_);
  calls_.End();
  EXPECT_EQ(calls_.AwaitNone(1), 1u);
  calls_.SetBusy(b_);
  calls_.End();
  EXPECT_EQ(calls_.AwaitNone(60'000), 0u);
}

TEST_F(OpenCallsTest, ACallThatIsGoneIsNotWaitedForAndNotEnded) {
  calls_.Begin(a_);
  calls_.SetBusy(a_);
  calls_.End();
  calls_.AwaitNone();
  SweepAfterMs(kMaxIdleStreamMs);
  EXPECT_EQ(a_.ended, 0);
}

}  // namespace
}  // namespace baton::router
