// The loop of the thread that owns an engine. It calls the phase policies (prefill, decode); other threads post work to
// it.
#ifndef BATON_ENGINE_ENGINE_LOOP_H_
#define BATON_ENGINE_ENGINE_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/mailbox.h"
#include "engine/engine.h"
#include "engine/step_gate.h"

namespace baton::engine {

// A worker's policy for the sequences that it added to the engine. Called by the loop's thread.
class PhasePolicy {
 public:
  virtual ~PhasePolicy() = default;
  // False when the sequence is not this policy's.
  virtual bool OnStepEvent(const StepEvent& event) = 0;
  // As Engine::Step describes it. A sequence of another policy is ignored.
  virtual void OnLayers(const LayerEvent& /*event*/) {}
  virtual void OnTimer() = 0;
  // When OnTimer next has something to do.
  virtual TimeNs NextTimer() const = 0;
};

// What tells a busy loop from one that hangs.
struct LoopProgress {
  // Steps that have ended.
  int64_t steps = 0;
  // When what the loop does now began: the tasks before a step, or the step, its wait at the gate included; none while
  // the loop is idle.
  std::optional<TimeNs> step_began;
};

// The last step that has ended.
struct StepTimes {
  // Counts from 1; 0: no step has ended.
  int64_t number = 0;
  // Without its waits at the gate, before it and when it yielded.
  int64_t compute_ns = 0;
};

class EngineLoop {
 public:
  using Task = std::function<void()>;

  // The engine, the policies and the gate outlive the loop. `report` runs on the loop's thread before every step, so
  // that nothing that was said waits for the step, and after every round. Each step waits at the gate, if there is one.
  EngineLoop(
      Engine& engine, const Clock& clock, std::vector<PhasePolicy*> policies, Task report = [] {},
      StepGate* gate = nullptr);

  // Any thread. False when the loop is overloaded or stopped: the task will not run.
  [[nodiscard]] bool Post(Task task) { return mailbox_.Post(std::move(task)); }

  // Waits for room instead of losing the task, which is dropped only when the loop has stopped. Any thread but the
  // loop's own.
  void PostWhenRoom(Task task) { mailbox_.PostWhenRoom(std::move(task)); }

  // One round without blocking: waiting tasks, due timers, one step. True when a step ran.
  bool RunOnce();
  // When RunOnce next has something to do without a new task. This is now if the engine has work.
  TimeNs NextRun() const;

  // Any thread. Two relaxed loads, which may be of moments just before and just after a step's end.
  LoopProgress Progress() const;

  // The loop's thread alone.
  const StepTimes& last_step() const { return last_step_; }

  // Runs rounds until Stop.
  void Run();
  // Any thread.
  void Stop() { mailbox_.Close(); }

 private:
  void RunTasks();
  void RunStep();

  Engine& engine_;
  const Clock& clock_;
  const std::vector<PhasePolicy*> policies_;
  const Task report_;
  StepGate* const gate_;
  Mailbox<Task> mailbox_;
  StepTimes last_step_;
  std::atomic<int64_t> steps_{0};
  // kNever while no step is under way.
  std::atomic<TimeNs> step_began_{kNever};
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_ENGINE_LOOP_H_
