// The time of the cores: monotonic and injected. Only common/clock.cc reads the machine's clock.
#ifndef BATON_COMMON_CLOCK_H_
#define BATON_COMMON_CLOCK_H_

#include <pthread.h>

#include <cstdint>
#include <limits>

namespace baton {

// Monotonic nanoseconds of one process. They mean nothing to other processes, which get durations instead.
using TimeNs = int64_t;

inline constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max();
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

inline TimeNs After(TimeNs from, int64_t duration_ms) { return from + duration_ms * kNsPerMs; }
inline double NsToMs(int64_t duration_ns) { return static_cast<double>(duration_ns) / kNsPerMs; }

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs Now() const = 0;
};

// CLOCK_MONOTONIC. The object lives for the whole process.
const Clock& MonotonicClock();

// CPU time that a thread of this process has used. The thread has not been joined. Any thread.
int64_t ThreadCpuNs(pthread_t thread);

}  // namespace baton

#endif  // BATON_COMMON_CLOCK_H_
