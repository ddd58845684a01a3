// A job whose client does not read its outputs waits for it without a worker.
#include <algorithm>

#include "absl/status/status.h"
#include "router/dispatcher_impl.h"

namespace baton::router {

bool Dispatcher::Impl::MayPause(const DispatchJob& job) const {
  if (job.state != JobState::kStreaming || paused_jobs() >= options_.max_running_jobs) return false;
  // P reports the digest of the prompt once, and no other attempt would.
  if (job.lacks_digest()) return false;
  // A decode worker holds the sequence already. Where it is too long for a prefill worker, nobody could go on with it.
  const int64_t tokens = job.spec->prompt_tokens() + job.next_index() - job.spec->emitted;
  return std::any_of(registry_.workers().begin(), registry_.workers().end(), [&](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.can_prefill() && worker.info.fingerprint == job.fingerprint &&
           worker.info.PromptBlocks(tokens) <= worker.info.total_blocks;
  });
}

void Dispatcher::Impl::Pause(const ChoiceKey& key) {
  const auto it = jobs_.find(key);
  if (it == jobs_.end() || !MayPause(*it->second)) return;
  DispatchJob& job = *it->second;
  GiveUpAttempt(job, "its client does not read");
  LeaveWorkers(job);
  ++job.result.pauses;
  job.state = JobState::kPaused;
  paused_.insert(key);
  SetTimer(job, std::min(job.spec->deadline, After(clock_.Now(), options_.max_paused_ms)));
  // It leaves a place among the running jobs.
  PlaceQueued();
}

void Dispatcher::Impl::Continue(const ChoiceKey& key) {
  if (paused_.erase(key) == 0) return;
  DispatchJob& job = *jobs_.at(key);
  // Workers that have left meanwhile are waited for as if that had been now.
  job.failed_at = clock_.Now();
  job.failure = absl::UnavailableError("the request waited for its client, which did not read");
  job.line_rank = LineRank::kOverdue;
  Requeue(job);
  PlaceQueued();
}

}  // namespace baton::router
