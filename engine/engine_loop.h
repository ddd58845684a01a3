// The loop of the thread that owns an engine. It calls the phase policies (prefill, decode); other threads post work to
// it.
#ifndef BATON_ENGINE_ENGINE_LOOP_H_
#define BATON_ENGINE_ENGINE_LOOP_H_

#include <functional>
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
  virtual void OnTimer() = 0;
  // When OnTimer next has something to do.
  virtual TimeNs NextTimer() const = 0;
};

class EngineLoop {
 public:
  using Task = std::function<void()>;

  // The engine, the policies and the gate outlive the loop. `after_round` runs on the loop's thread after every round,
  // for reports of load. Each step waits at the gate, if there is one.
  EngineLoop(
      Engine& engine, const Clock& clock, std::vector<PhasePolicy*> policies, Task after_round = [] {},
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

  // Runs rounds until Stop.
  void Run();
  // Any thread.
  void Stop() { mailbox_.Close(); }

 private:
  void RunTasks();

  Engine& engine_;
  const Clock& clock_;
  const std::vector<PhasePolicy*> policies_;
  const Task after_round_;
  StepGate* const gate_;
  Mailbox<Task> mailbox_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_ENGINE_LOOP_H_
