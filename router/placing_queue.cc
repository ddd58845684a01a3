#include "router/placing_queue.h"

#include <algorithm>
#include <optional>

namespace baton::router {
namespace {

// Jobs behind the head that are tried while the head does not fit.
constexpr int kMaxLookAhead = 32;

}  // namespace

PlacingQueue::PlacingQueue(const PlacingOptions& options, const Clock& clock, const WorkerRegistry& registry,
                           const CallLedger& ledger)
    : options_(options), clock_(clock), registry_(registry), ledger_(ledger), line_(options.ttft_target_ms * kNsPerMs) {
  missing_since_.fill(clock.Now());
}

void PlacingQueue::Add(DispatchJob& job) {
  line_.Add(job);
  next_give_up_ = std::min(next_give_up_, GiveUpTime(job));
  if (line_.AmongFirst(job, kMaxLookAhead + 1)) needs_placing_ = true;
}

void PlacingQueue::OnRoomChanged(const WorkerId& worker) {
  if (registry_.Find(worker) != nullptr) ++room_epochs_[worker];
  needs_placing_ = true;
}

void PlacingQueue::OnWorkersChanged() {
  const TimeNs now = clock_.Now();
  for (size_t kind = 0; kind < kAttemptKinds; ++kind) {
    const JobNeeds needs = {.prompt_tokens = 0, .kind = static_cast<AttemptKind>(kind)};
    const bool missing = Place(registry_, {}, needs, options_.placement, {}).verdict == PlacementVerdict::kNoWorkers;
    if (!missing) {
      missing_since_[kind] = kNever;
    } else if (missing_since_[kind] == kNever) {
      missing_since_[kind] = now;
      next_give_up_ = std::min(next_give_up_, After(now, options_.no_worker_wait_ms));
    }
  }
  std::erase_if(room_epochs_, [this](const auto& entry) { return registry_.Find(entry.first) == nullptr; });
  needs_placing_ = true;
}

void PlacingQueue::OnRefusal(DispatchJob& job, const WorkerId& worker) {
  if (registry_.Find(worker) == nullptr) return;
  job.refused_by.push_back({.worker = worker,
                            .room_epoch = RoomEpoch(worker),
                            .retry_at = After(clock_.Now(), options_.refusal_backoff_ms)});
}

uint64_t PlacingQueue::RoomEpoch(const WorkerId& worker) const {
  const auto it = room_epochs_.find(worker);
  return it == room_epochs_.end() ? 0 : it->second;
}

void PlacingQueue::PlaceJobs(absl::FunctionRef<bool()> has_room, absl::FunctionRef<void(DispatchJob&)> start,
                             absl::FunctionRef<void(DispatchJob&)> refuse) {
  if (!needs_placing_) return;
  const TimeNs now = clock_.Now();
  RankJobs(now);
  const WaitingLine::Jobs& line = line_.jobs();
  int waiting = 0;
  for (auto it = line.begin(); it != line.end() && waiting <= kMaxLookAhead && has_room();) {
    DispatchJob& head = *line.begin()->second;
    DispatchJob& job = *it->second;
    if (&job != &head && head.passed_over >= options_.max_passed_over) break;
    ++it;
    // The dispatcher's timer ends a job whose deadline has passed.
    const bool late = job.spec->deadline <= now;
    const PlacementResult placed = late ? PlacementResult{} : TryPlace(job);
    switch (placed.verdict) {
      case PlacementVerdict::kPlaced:
        if (&job != &head && ++head.passed_over == options_.max_passed_over) line_.Hurry(head);
        line_.Remove(job);
        job.kind = placed.pair.prefill == placed.pair.decode ? AttemptKind::kLocal : KindOf(*job.spec);
        job.pair = placed.pair;
        start(job);
        break;
      case PlacementVerdict::kImpossible:
        refuse(job);
        break;
      case PlacementVerdict::kBusy:
      case PlacementVerdict::kNoWorkers:
        ++waiting;
        break;
    }
  }
  // Whatever was started or refused on the way has been taken into account.
  needs_placing_ = false;
}

// Ranks as if the next prompt went to the prefill worker with the least to compute. That takes short prompts, which a
// decode worker will compute itself, for late too soon.
void PlacingQueue::RankJobs(TimeNs now) {
  if (line_.size() == 0) return;
  std::optional<int64_t> least;
  for (const auto& [id, worker] : registry_.workers()) {
    if (!worker.can_prefill() || worker.load.state != WorkerState::kServing) continue;
    const int64_t tokens = AssignmentOf(ledger_.assigned(), id).uncomputed_prompt_tokens;
    least = std::min(least.value_or(tokens), tokens);
  }
  if (least) line_.Rank(now, *least);
}

PlacementResult PlacingQueue::TryPlace(DispatchJob& job) {
  const JobNeeds needs = {.prompt_tokens = job.spec->prompt_tokens(), .kind = KindOf(*job.spec)};
  return Place(registry_, ledger_.assigned(), needs, options_.placement, AvoidedWorkers(job));
}

AttemptKind PlacingQueue::KindOf(const JobSpec& spec) const {
  if (spec.sampling.max_tokens == 1) return AttemptKind::kSolo;
  return spec.prompt_tokens() < options_.local_prefill_tokens ? AttemptKind::kLocal : AttemptKind::kPair;
}

std::vector<WorkerId> PlacingQueue::AvoidedWorkers(DispatchJob& job) {
  const TimeNs now = clock_.Now();
  std::erase_if(job.refused_by, [&](const Refusal& refusal) {
    return refusal.retry_at <= now || registry_.Find(refusal.worker) == nullptr ||
           RoomEpoch(refusal.worker) != refusal.room_epoch;
  });
  std::vector<WorkerId> avoided;
  for (const Refusal& refusal : job.refused_by) {
    avoided.push_back(refusal.worker);
    next_retry_ = std::min(next_retry_, refusal.retry_at);
  }
  return avoided;
}

TimeNs PlacingQueue::GiveUpTime(const DispatchJob& job) const {
  const TimeNs since = missing_since_[static_cast<size_t>(KindOf(*job.spec))];
  if (since == kNever) return kNever;
  return After(std::max(since, job.marks.submitted), options_.no_worker_wait_ms);
}

std::vector<DispatchJob*> PlacingQueue::UnservedJobs() {
  const TimeNs now = clock_.Now();
  std::vector<DispatchJob*> unserved;
  if (next_give_up_ > now) return unserved;
  next_give_up_ = kNever;
  for (const auto& [place, job] : line_.jobs()) {
    const TimeNs give_up = GiveUpTime(*job);
    if (give_up <= now) {
      unserved.push_back(job);
    } else {
      next_give_up_ = std::min(next_give_up_, give_up);
    }
  }
  return unserved;
}

void PlacingQueue::OnTimer() {
  if (next_retry_ > clock_.Now()) return;
  next_retry_ = kNever;
  needs_placing_ = true;
}

TimeNs PlacingQueue::NextTimer() const { return std::min(next_retry_, next_give_up_); }

}  // namespace baton::router
