// What becomes of jobs at a simulated router, and the keeper of those that outlive their calls.
#include <memory>
#include <utility>

#include "common/status.h"
#include "simulator/kept_oracle.h"
#include "simulator/router_node.h"

namespace baton::simulator {

void RouterNode::Keep(const KeptSetup& setup, JournalDisk& disk, std::vector<router::JournaledJob> jobs) {
  disk_ = &disk;
  journal_ = std::make_unique<SimulatedJournal>(sim_, *this, disk, setup);
  kept_ = std::make_unique<router::KeptJobs>(setup.live, ServedFakeModel(), clock(), *this, journal_.get(),
                                             [this] { return sim_.queue.Now() / kNsPerMs; });
  Post([this, jobs = std::move(jobs)](router::Dispatcher& dispatcher) { kept_->Recover(jobs, dispatcher); });
}

void RouterNode::Every(int64_t interval_ms, LoopTask task) {
  periodic_.push_back({.interval_ms = interval_ms, .task = std::move(task), .next = clock().Now()});
  ScheduleRun(sim_.queue.Now());
}

absl::Status RouterNode::Submit(std::shared_ptr<const router::JobSpec> job,
                                std::shared_ptr<router::JobListener> listener) {
  BATON_RETURN_IF_ERROR(dispatcher_.Submit(job));
  listener_.OnSubmitted(job, *this);
  kept_listeners_[job->key()] = std::move(listener);
  return absl::OkStatus();
}

void RouterNode::Handle(const router::EmitToken& action) {
  if (action.prompt != nullptr) listener_.OnPrompt(action.key, *action.prompt);
  listener_.OnToken(action.key, action.token);
  const auto it = kept_listeners_.find(action.key);
  if (it != kept_listeners_.end()) it->second->OnToken(action.token);
}

// The checks of the end come before its client hears of it.
void RouterNode::Handle(const router::EndJob& action) {
  listener_.OnEnd(action.key, action.result);
  const auto it = kept_listeners_.find(action.key);
  if (it == kept_listeners_.end()) return;
  const std::shared_ptr<router::JobListener> listener = std::move(it->second);
  kept_listeners_.erase(it);
  listener->OnEnd(action.result);
}

}  // namespace baton::simulator
