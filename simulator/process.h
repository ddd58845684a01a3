// A simulated process: it can be paused, as by SIGSTOP, and die. While it is paused nothing of it runs: messages queue
// outside, and timers are late. When it wakes, both are due at the same moment, in either order.
#ifndef BATON_SIMULATOR_PROCESS_H_
#define BATON_SIMULATOR_PROCESS_H_

#include <utility>
#include <vector>

#include "simulator/simulation.h"

namespace baton::simulator {

// Outlives all events of the run.
class Process {
 public:
  explicit Process(Simulation& sim) : sim_(sim) {}

  bool alive() const { return alive_; }
  bool paused() const { return sim_.queue.Now() < wake_; }
  // A message has come. Messages are handled in the order in which they come.
  void Reach(Task handle) {
    if (!alive_) return;
    if (!paused() && messages_.empty()) return handle();
    messages_.push_back(std::move(handle));
  }
  // The process does this at `time`.
  void At(TimeNs time, Task task) {
    sim_.queue.At(time, [this, task = std::move(task)]() mutable {
      if (!alive_) return;
      if (!paused() && timers_.empty()) return task();
      timers_.push_back(std::move(task));
    });
  }
  void After(int64_t delay_ns, Task task) { At(sim_.queue.Now() + delay_ns, std::move(task)); }

  // From now on.
  void Pause(int64_t ns) {
    const TimeNs wake = sim_.queue.Now() + ns;
    if (!alive_ || wake <= wake_) return;
    wake_ = wake;
    sim_.queue.At(wake, [this] { Wake(); });
  }
  TimeNs wake() const { return wake_; }

 protected:
  ~Process() = default;
  void Die() { alive_ = false; }

  Simulation& sim_;

 private:
  void Wake() {
    // A later pause has prolonged this one.
    if (paused()) return;
    const bool timers_first = sim_.Chance(50);
    RunAll(timers_first ? timers_ : messages_);
    RunAll(timers_first ? messages_ : timers_);
  }
  void RunAll(std::vector<Task>& tasks) {
    for (const Task& task : std::exchange(tasks, {})) {
      if (alive_) task();
    }
  }

  bool alive_ = true;
  TimeNs wake_ = 0;
  std::vector<Task> messages_;
  std::vector<Task> timers_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_PROCESS_H_
