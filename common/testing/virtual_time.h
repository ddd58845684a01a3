// Virtual time for tests that simulate processes and networks: tasks run in order of their time, then of their arrival,
// and nothing happens between two of them.
#ifndef BATON_COMMON_TESTING_VIRTUAL_TIME_H_
#define BATON_COMMON_TESTING_VIRTUAL_TIME_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace baton {

// Used by one thread.
class VirtualTime final : public Clock {
 public:
  using Task = std::function<void()>;
  // Far from zero, so that a forgotten zero time shows.
  static constexpr TimeNs kStart = 1'000 * kNsPerSecond;

  TimeNs Now() const override { return now_; }

  // A time that has passed means now.
  void At(TimeNs time, Task task) {
    events_.push_back({std::max(time, now_), order_++, std::move(task)});
    std::push_heap(events_.begin(), events_.end(), Later);
  }
  void After(int64_t delay_ns, Task task) { At(now_ + delay_ns, std::move(task)); }

  bool empty() const { return events_.empty(); }

  // Runs the next task that is due at `limit` or earlier. False when there is none; the clock then stands at `limit`.
  bool RunNext(TimeNs limit) {
    if (events_.empty() || events_.front().time > limit) {
      now_ = std::max(now_, limit);
      return false;
    }
    std::pop_heap(events_.begin(), events_.end(), Later);
    const Event event = std::move(events_.back());
    events_.pop_back();
    now_ = std::max(now_, event.time);
    event.task();
    return true;
  }
  // Time passes without a task: those that were due meanwhile run late.
  void Advance(int64_t ns) { now_ += ns; }

 private:
  struct Event {
    TimeNs time = 0;
    uint64_t order = 0;
    Task task;
  };
  static bool Later(const Event& a, const Event& b) { return std::pair(a.time, a.order) > std::pair(b.time, b.order); }

  TimeNs now_ = kStart;
  uint64_t order_ = 0;
  // A heap, the next event first.
  std::vector<Event> events_;
};

}  // namespace baton

#endif  // BATON_COMMON_TESTING_VIRTUAL_TIME_H_
