#include "engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "common/limits.h"
#include "common/own_fault.h"
#include "common/test_delay.h"

namespace baton::engine {

// An idle loop looks at its timers at least this often.
constexpr int64_t kMaxIdleWaitNs = 100 * kNsPerMs;

EngineLoop::EngineLoop(Engine& engine, const Clock& clock, std::vector<PhasePolicy*> policies, Task report,
                       StepGate* gate)
    : engine_(engine),
      clock_(clock),
      policies_(std::move(policies)),
      report_(std::move(report)),
      gate_(gate),
      mailbox_(kMaxMailboxEvents) {}

void EngineLoop::RunTasks() {
  for (Task& task : mailbox_.Take()) task();
  for (PhasePolicy* policy : policies_) {
    if (policy->NextTimer() <= clock_.Now()) policy->OnTimer();
  }
}

bool EngineLoop::RunOnce() {
  // A task can hang like a step: it may wait for a device, to zero or to show a block.
  step_began_.store(clock_.Now(), std::memory_order_relaxed);
  RunTasks();
  if (!engine_.HasWork()) {
    step_began_.store(kNever, std::memory_order_relaxed);
    return false;
  }
  report_();
  step_began_.store(clock_.Now(), std::memory_order_relaxed);
  RunStep();
  steps_.fetch_add(1, std::memory_order_relaxed);
  step_began_.store(kNever, std::memory_order_relaxed);
  return true;
}

void EngineLoop::RunStep() {
  const TimeNs asked = step_began_.load(std::memory_order_relaxed);
  const int64_t waited_before_ns = gate_ == nullptr ? 0 : gate_->wait_ns();
  if (gate_ != nullptr) {
    gate_->Enter();
    // A sequence that became ready during the wait joins this very step.
    RunTasks();
    report_();
  }
  const absl::Span<const StepEvent> events = engine_.Step([this](const LayerEvent& event) {
    for (PhasePolicy* policy : policies_) policy->OnLayers(event);
  });
  const int64_t waited_ns = gate_ == nullptr ? 0 : gate_->wait_ns() - waited_before_ns;
  last_step_ = {.number = steps_.load(std::memory_order_relaxed) + 1, .compute_ns = clock_.Now() - asked - waited_ns};
  if (gate_ != nullptr) gate_->Leave();
  TestDelay("step");
  for (const StepEvent& event : events) {
    for (PhasePolicy* policy : policies_) {
      if (policy->OnStepEvent(event)) break;
    }
  }
  engine_.ForgetStep();
}

LoopProgress EngineLoop::Progress() const {
  const TimeNs began = step_began_.load(std::memory_order_relaxed);
  return {.steps = steps_.load(std::memory_order_relaxed),
          .step_began = began == kNever ? std::nullopt : std::optional(began)};
}

TimeNs EngineLoop::NextRun() const {
  if (engine_.HasWork()) return clock_.Now();
  TimeNs next = kNever;
  for (const PhasePolicy* policy : policies_) next = std::min(next, policy->NextTimer());
  return next;
}

void EngineLoop::Run() {
  ComputeOnThisThread();
  while (!mailbox_.closed()) {
    const bool stepped = RunOnce();
    report_();
    if (stepped) continue;
    const TimeNs now = clock_.Now();
    const TimeNs next = NextRun();
    if (next > now) mailbox_.Wait(std::min(next - now, kMaxIdleWaitNs));
  }
}

}  // namespace baton::engine
