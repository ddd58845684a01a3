// A clock that the test moves. Any thread may read and move it.
#ifndef BATON_COMMON_TESTING_MANUAL_CLOCK_H_
#define BATON_COMMON_TESTING_MANUAL_CLOCK_H_

#include <atomic>

#include "common/clock.h"

namespace baton {

class ManualClock final : public Clock {
 public:
  TimeNs Now() const override { return now_.load(); }
  void Set(TimeNs now) { now_.store(now); }
  void Advance(int64_t ns) { now_.fetch_add(ns); }
  void AdvanceMs(int64_t ms) { Advance(ms * kNsPerMs); }

 private:
  std::atomic<TimeNs> now_{kNsPerSecond};
};

}  // namespace baton

#endif  // BATON_COMMON_TESTING_MANUAL_CLOCK_H_
