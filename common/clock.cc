#include "common/clock.h"

#include <chrono>

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

}  // namespace baton
