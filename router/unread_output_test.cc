#include "router/unread_output.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

constexpr UnreadOutputLimits kLimits = {.total_bytes = 100, .ended_streams = 2, .ended_ms = 10};

struct FakeStream final : public UnreadOutput::Stream {
  explicit FakeStream(UnreadOutput& unread) : unread(unread) { unread.Add(*this); }
  ~FakeStream() override { unread.Remove(*this); }
  void Break() override { ++broken; }

  void Hold(int64_t bytes) {
    unread.Count(*this, bytes);
    unread.Enforce();
  }

  UnreadOutput& unread;
  int broken = 0;
};

class UnreadOutputTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  UnreadOutput unread_{kLimits, clock_};
  FakeStream a_{unread_};
  FakeStream b_{unread_};
  FakeStream c_{unread_};
};

TEST_F(UnreadOutputTest, AtTheBoundNobodyIsBrokenAndBeyondItTheWorst) {
  a_.Hold(30);
  b_.Hold(40);
  c_.Hold(30);
  EXPECT_EQ(a_.broken + b_.broken + c_.broken, 0);
  a_.Hold(1);
  EXPECT_EQ(b_.broken, 1);
  EXPECT_EQ(a_.broken + c_.broken, 0);
}

TEST_F(UnreadOutputTest, WhatABrokenStreamHoldsBreaksNobodyElse) {
  a_.Hold(90);
  b_.Hold(20);
  EXPECT_EQ(a_.broken, 1);
  c_.Hold(20);
  EXPECT_EQ(a_.broken, 1);
  EXPECT_EQ(b_.broken + c_.broken, 0);
}

TEST_F(UnreadOutputTest, WhatWasReadCountsNoMore) {
  a_.Hold(90);
  a_.Hold(-90);
  b_.Hold(90);
  EXPECT_EQ(a_.broken + b_.broken, 0);
}

TEST_F(UnreadOutputTest, WhatALeavingStreamHeldCountsNoMore) {
  { FakeStream(unread_).Hold(90); }
  a_.Hold(90);
  EXPECT_EQ(a_.broken, 0);
}

TEST_F(UnreadOutputTest, AsManyEndedStreamsAsTheBoundMayStayAndThenTheOldestGoes) {
  unread_.Ended(a_);
  unread_.Ended(b_);
  EXPECT_EQ(a_.broken, 0);
  unread_.Ended(c_);
  EXPECT_EQ(a_.broken, 1);
  EXPECT_EQ(b_.broken + c_.broken, 0);
}

TEST_F(UnreadOutputTest, AnEndedStreamIsBrokenAfterItsTime) {
  unread_.Ended(a_);
  clock_.AdvanceMs(5);
  unread_.Ended(b_);
  clock_.AdvanceMs(5);
  clock_.Advance(-1);
  unread_.Sweep();
  EXPECT_EQ(a_.broken, 0);
  clock_.Advance(1);
  unread_.Sweep();
  unread_.Sweep();
  EXPECT_EQ(a_.broken, 1) << "and only once";
  EXPECT_EQ(b_.broken + c_.broken, 0);
}

TEST_F(UnreadOutputTest, AnEndedStreamThatWasReadIsForgotten) {
  {
    FakeStream d(unread_);
    unread_.Ended(d);
  }
  clock_.AdvanceMs(20);
  unread_.Sweep();
}

TEST_F(UnreadOutputTest, AwaitReadWaitsForEndedStreamsAndSaysHowManyAreLeft) {
  EXPECT_EQ(unread_.AwaitRead(0), 0u) << "no job has ended";
  unread_.Ended(a_);
  auto d = std::make_unique<FakeStream>(unread_);
  unread_.Ended(*d);
  const absl::Time began = absl::Now();
  EXPECT_EQ(unread_.AwaitRead(100), 2u);
  EXPECT_GE(absl::Now() - began, absl::Milliseconds(100));
  d.reset();
  EXPECT_EQ(unread_.AwaitRead(0), 1u);
}

TEST_F(UnreadOutputTest, AwaitReadReturnsWhenTheLastStreamIsRead) {
  // In most rounds the client reads after the wait has begun.
  for (int round = 0; round < 50; ++round) {
    auto d = std::make_unique<FakeStream>(unread_);
    unread_.Ended(*d);
    std::thread client([&] { d.reset(); });
    EXPECT_EQ(unread_.AwaitRead(60'000), 0u);
    client.join();
  }
}

TEST(UnreadOutput, TheRoutersOwnBoundsHold) {
  ManualClock clock;
  UnreadOutput unread({}, clock);
  FakeStream first(unread);
  FakeStream slow(unread);
  slow.Hold(kMaxUnreadOutputBytesOfAll);
  EXPECT_EQ(slow.broken, 0);
  slow.Hold(1);
  EXPECT_EQ(slow.broken, 1);
  unread.Ended(first);
  std::vector<std::unique_ptr<FakeStream>> streams;
  while (streams.size() < kMaxUnreadEndedStreams) {
    EXPECT_EQ(first.broken, 0);
    streams.push_back(std::make_unique<FakeStream>(unread));
    unread.Ended(*streams.back());
  }
  EXPECT_EQ(first.broken, 1);
  clock.AdvanceMs(kMaxUnreadEndedMs - 1);
  unread.Sweep();
  EXPECT_EQ(streams.back()->broken, 0);
  clock.AdvanceMs(1);
  unread.Sweep();
  EXPECT_EQ(streams.back()->broken, 1);
}

}  // namespace
}  // namespace baton::router
