#include "common/rpc/event_queue.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

// A Wait that lasts so long was not woken.
constexpr int64_t kForEverNs = 20 * kNsPerSecond;

class Counter final : public Operation {
 public:
  void Done(bool ok) override {
    ++done;
    last_ok = ok;
  }
  int done = 0;
  bool last_ok = false;
};

TEST(EventQueueTest, AWakeBeforeTheWaitEndsIt) {
  EventQueue events;
  const TimeNs begin = MonotonicClock().Now();
  events.Wake();
  events.Wait(kForEverNs);
  EXPECT_LT(MonotonicClock().Now() - begin, kForEverNs / 2);
}

TEST(EventQueueTest, ManyWakesBeforeAWaitAreOne) {
  EventQueue events;
  for (int i = 0; i < 3; ++i) events.Wake();
  events.Wait(kForEverNs);
  const TimeNs begin = MonotonicClock().Now();
  events.Wait(20 * kNsPerMs);
  EXPECT_GE(MonotonicClock().Now() - begin, 19 * kNsPerMs);
}

TEST(EventQueueTest, AnOperationThatIsDoneEndsTheWaitAndIsToldSo) {
  EventQueue events;
  Counter counter;
  grpc::Alarm alarm;
  alarm.Set(&events.queue(), gpr_now(GPR_CLOCK_MONOTONIC), &counter);
  while (counter.done == 0) events.Wait(kForEverNs);
  EXPECT_TRUE(counter.last_ok);
  alarm.Set(&events.queue(), gpr_inf_future(GPR_CLOCK_MONOTONIC), &counter);
  alarm.Cancel();
  while (counter.done == 1) events.Wait(kForEverNs);
  EXPECT_FALSE(counter.last_ok);
}

TEST(EventQueueTest, NoWakeOfManyThreadsIsLostBetweenOperations) {
  constexpr int kThreads = 3, kPosts = 20'000;
  EventQueue events;
  std::atomic<int> posted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        ++posted;
        events.Wake();
      }
    });
  }
  Counter counter;
  grpc::Alarm alarm;
  int seen = 0, alarms = 0;
  while (seen < kThreads * kPosts) {
    if (counter.done == alarms) {
      ++alarms;
      alarm.Set(&events.queue(), gpr_now(GPR_CLOCK_MONOTONIC), &counter);
    }
    // The last post may have been seen before its wake; every other wait is ended by a wake or by an operation.
    seen = posted;
    if (seen < kThreads * kPosts) events.Wait(kForEverNs);
  }
  for (std::thread& thread : threads) thread.join();
  while (counter.done < alarms) events.Wait(kForEverNs);
}

}  // namespace
}  // namespace baton::rpc
