// A simulated process with a clock of its own: it can be paused, as by SIGSTOP, and die. While it is paused nothing of
// it runs: messages queue outside, and timers are late. When it wakes, both are due at the same moment, in either
// order.
#ifndef BATON_SIMULATOR_PROCESS_H_
#define BATON_SIMULATOR_PROCESS_H_

#include <utility>
#include <vector>

#include "common/clock.h"
#include "simulator/simulation.h"

namespace baton::simulator {

// What a process reads as its monotonic clock. It may leap ahead of the others', and stand still while they go on.
class ProcessClock final : public Clock {
 public:
  explicit ProcessClock(const VirtualTime& time) : time_(time) {}

  TimeNs Now() const override { return time_.Now() + ahead_ns_; }
  int64_t ahead_ns() const { return ahead_ns_; }
  void Shift(int64_t ns) { ahead_ns_ += ns; }
  // When virtual time will be what this clock shows at `time`, as long as it does not leap.
  TimeNs ToVirtual(TimeNs time) const { return time == kNever ? kNever : time - ahead_ns_; }

 private:
  const VirtualTime& time_;
  int64_t ahead_ns_ = 0;
};

// Outlives all events of the run.
class Process {
 public:
  explicit Process(Simulation& sim) : sim_(sim), clock_(sim.queue) {}

  const ProcessClock& clock() const { return clock_; }

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
  // Paused, and its clock with it, as a virtual machine that is suspended: it wakes and knows nothing of the time.
  void Suspend(int64_t ns) {
    if (!alive_ || paused()) return;
    sim_.queue.After(ns, [this, ns] { clock_.Shift(-ns); });
    Pause(ns);
  }

 protected:
  ~Process() = default;
  void Die() { alive_ = false; }
  // The owner's timers may be due earlier then.
  void LeapClock(int64_t ns) { clock_.Shift(ns); }

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

  ProcessClock clock_;
  bool alive_ = true;
  TimeNs wake_ = 0;
  std::vector<Task> messages_;
  std::vector<Task> timers_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_PROCESS_H_
