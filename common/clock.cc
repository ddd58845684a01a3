#include "common/clock.h"

#include <chrono>
#include <ctime>

namespace baton {
namespace {

class SteadyClock final : public Clock {
 public:
  TimeNs Now() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock& MonotonicClock() {
  static const SteadyClock kClock;
  return kClock;
}

int64_t ThreadCpuNs(pthread_t thread) {
  clockid_t clock = 0;
  timespec used{};
  const bool known = pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &used) == 0;
  return known ? used.tv_sec * kNsPerSecond + used.tv_nsec : 0;
}

}  // namespace baton
