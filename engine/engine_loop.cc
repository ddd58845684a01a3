#include "engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "common/limits.h"

namespace baton::engine {

// An idle loop looks at its timers at least this often.
constexpr int64_t kMaxIdleWaitNs = 100 * kNsPerMs;

EngineLoop::EngineLoop(Engine& engine, const Clock& clock, std::vector<PhasePolicy*> policies, Task after_round,
                       StepGate* gate)
    : engine_(engine),
      clock_(clock),
      policies_(std::move(policies)),
      after_round_(std::move(after_round)),
      gate_(gate),
      mailbox_(kMaxMailboxEvents) {}

void EngineLoop::RunTasks() {
  for (Task& task : mailbox_.Take()) task();
  for (PhasePolicy* policy : policies_) {
    if (policy->NextTimer() <= clock_.Now()) policy->OnTimer();
  }
}

bool EngineLoop::RunOnce() {
  RunTasks();
  if (!engine_.HasWork()) return false;
  if (gate_ != nullptr) {
    gate_->Enter();
    // A sequence that became ready during the wait joins this very step.
    RunTasks();
  }
  const absl::Span<const StepEvent> events = engine_.Step();
  if (gate_ != nullptr) gate_->Leave();
  for (const StepEvent& event : events) {
    for (PhasePolicy* policy : policies_) {
      if (policy->OnStepEvent(event)) break;
    }
  }
  return true;
}

TimeNs EngineLoop::NextRun() const {
  if (engine_.HasWork()) return clock_.Now();
  TimeNs next = kNever;
  for (const PhasePolicy* policy : policies_) next = std::min(next, policy->NextTimer());
  return next;
}

void EngineLoop::Run() {
  while (!mailbox_.closed()) {
    const bool stepped = RunOnce();
    after_round_();
    if (stepped) continue;
    const TimeNs now = clock_.Now();
    const TimeNs next = NextRun();
    if (next > now) mailbox_.Wait(std::min(next - now, kMaxIdleWaitNs));
  }
}

}  // namespace baton::engine
