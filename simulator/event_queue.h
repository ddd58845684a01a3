// Virtual time: tasks in order of time, then of arrival. Nothing happens between two of them.
#ifndef BATON_SIMULATOR_EVENT_QUEUE_H_
#define BATON_SIMULATOR_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace baton::simulator {

using Task = std::function<void()>;

// Used by one thread.
class EventQueue final : public Clock {
 public:
  // Far from zero, so that a forgotten zero time shows.
  static constexpr TimeNs kStart = 1'000 * kNsPerSecond;

  TimeNs Now() const override { return now_; }

  // A time that has passed means now.
  void At(TimeNs time, Task task) {
    events_.push_back({std::max(time, now_), order_++, std::move(task)});
    std::push_heap(events_.begin(), events_.end(), Later);
  }
  void After(int64_t delay_ns, Task task) { At(now_ + delay_ns, std::move(task)); }

  // False when nothing is left to do until `limit`; the clock then stands at `limit`.
  bool RunNext(TimeNs limit) {
    if (events_.empty() || events_.front().time > limit) {
      now_ = std::max(now_, limit);
      return false;
    }
    std::pop_heap(events_.begin(), events_.end(), Later);
    const Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.time;
    event.task();
    return true;
  }

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

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_EVENT_QUEUE_H_
