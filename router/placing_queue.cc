#include "router/placing_queue.h"

#include <algorithm>
#include <optional>

namespace baton::router {
namespace {

// Jobs that are tried in one round and do not fit. Those that cannot fit are not tried, but for the first of the line,
// so these are jobs that a worker has refused just now.
constexpr int kMaxFailedTries = 32;

// Whether the job was taken for good: it is not refused for what the workers of the moment cannot do.
bool GoesOn(const DispatchJob& job) { return !job.outputs.empty() || job.spec->is_recovered; }

}  // namespace

PlacingQueue::PlacingQueue(const PlacingOptions& options, const Clock& clock, const WorkerRegistry& registry,
                           const CallLedger& ledger, const ClusterHealth& health)
    : options_(options),
      clock_(clock),
      registry_(registry),
      ledger_(ledger),
      health_(health),
      line_(options.ttft_target_ms * kNsPerMs),
      returning_(options.worker_return_ms) {
  missing_since_.fill(clock.Now());
}

void PlacingQueue::Add(DispatchJob& job) {
  if (job.passed_over >= options_.max_passed_over) job.line_rank = LineRank::kOverdue;
  job.waits_since = clock_.Now();
  line_.Add(job);
  pace_.OnWaiting(job.waits_since);
  const JobNeeds needs = NeedsOf(job);
  waiting_prompts_[needs.job_class()].insert(needs.prompt_tokens);
  next_give_up_ = std::min(next_give_up_, GiveUpTime(job));
  if (OtherNumericsAt(job) > job.waits_since) {
    next_other_numerics_ = std::min(next_other_numerics_, OtherNumericsAt(job));
  }
  const bool is_first = line_.jobs().begin()->second == &job;
  // The others did not fit the last time, and nothing has changed since.
  if (!needs_placing_) {
    longest_fitting_.fill(std::nullopt);
    needs_placing_ = is_first || held() == &job || needs.prompt_tokens <= LongestFitting(needs.job_class());
  }
}

void PlacingQueue::Take(const DispatchJob& job) {
  if (!line_.Remove(job)) return;
  pace_.OnWaitingEnded();
  std::multiset<int64_t>& prompts = waiting_prompts_[NeedsOf(*job.spec).job_class()];
  prompts.erase(prompts.find(job.spec->prompt_tokens()));
}

void PlacingQueue::OnEnd(const DispatchJob& job) {
  Take(job);
  if (const double more = line_.OnEnded(job); more != 0) pace_.OnUsualCostChanged(more);
  EndHold(job);
  needs_placing_ = true;
}

void PlacingQueue::OnRoomChanged(const WorkerId& worker) {
  if (registry_.Find(worker) != nullptr) ++room_epochs_[worker];
  needs_placing_ = true;
}

void PlacingQueue::OnWorkersChanged() {
  const TimeNs now = clock_.Now();
  expected_until_ = returning_.ExpectedUntil(registry_);
  everybody_.reset();
  for (size_t i = 0; i < JobNeeds::kClasses; ++i) {
    const PlacementResult placed = Place(registry_, {}, JobNeeds::OfClass(i), options_.placement, {});
    const bool missing = placed.verdict == PlacementVerdict::kNoWorkers;
    missing_since_[i] = missing ? std::min(missing_since_[i], now) : kNever;
  }
  // The next timer finds out how long the jobs may still wait.
  if (!line_.jobs().empty()) next_give_up_ = now;
  std::erase_if(room_epochs_, [this](const auto& entry) { return registry_.Find(entry.first) == nullptr; });
  needs_placing_ = true;
}

void PlacingQueue::OnRefusal(DispatchJob& job, const WorkerId& worker) {
  ++job.passed_over;
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
  longest_fitting_.fill(std::nullopt);
  UpdateHold();
  int failed_tries = 0;
  const auto try_job = [&](DispatchJob& job) {
    DispatchJob& head = *line_.jobs().begin()->second;
    const PlacementResult placed = TryPlace(job);
    if (placed.verdict == PlacementVerdict::kImpossible) return refuse(job);
    if (placed.verdict != PlacementVerdict::kPlaced) {
      ++failed_tries;
      return;
    }
    if (&job != &head) PassOver(head);
    const PlacedJob as_placed = {.cost = job.waiting_cost,
                                 .has_usual_outputs = line_.HasUsualOutputs(*job.spec),
                                 .calls = ledger_.size(),
                                 .waits_since = job.waits_since,
                                 .now = now};
    if (line_.OnPlaced(job, as_placed)) pace_.OnPlaced(as_placed);
    Take(job);
    job.kind = placed.pair.prefill == placed.pair.decode ? AttemptKind::kLocal : KindOf(*job.spec);
    job.pair = placed.pair;
    start(job);
    longest_fitting_.fill(std::nullopt);
  };
  if (hold_ && line_.Contains(*hold_->job) && has_room()) try_job(*hold_->job);
  const WaitingLine::Jobs& line = line_.jobs();
  for (auto it = line.begin(); it != line.end() && failed_tries <= kMaxFailedTries && has_room();) {
    DispatchJob& head = *line.begin()->second;
    BeginHold(head, now);
    DispatchJob& job = *it->second;
    ++it;
    // The dispatcher's timer ends a job whose deadline has passed.
    if (job.spec->deadline <= now) continue;
    if (&job != &head) {
      if (!SomeMayFit()) break;
      const JobNeeds needs = NeedsOf(job);
      if (needs.prompt_tokens > LongestFitting(needs.job_class())) continue;
    }
    try_job(job);
    // The others' turn may have come.
    if (line_.TakeTurns()) it = line.begin();
  }
  // Whatever was started or refused on the way has been taken into account.
  needs_placing_ = false;
}

void PlacingQueue::PassOver(DispatchJob& job) {
  if (++job.passed_over == options_.max_passed_over) line_.Hurry(job);
}

void PlacingQueue::BeginHold(DispatchJob& job, TimeNs now) {
  if (hold_ || job.passed_over < options_.max_passed_over || now < next_hold_) return;
  hold_ = Hold{.job = &job, .pair = {}, .since = now, .workers = {}};
  UpdateHold();
}

// P is held only while D has room, so that it does not wait idle for a D that drains.
void PlacingQueue::UpdateHold() {
  if (!hold_) return;
  JobNeeds needs = NeedsOf(*hold_->job);
  const auto place = [&](CountsAsIdle idle) {
    needs.idle = idle;
    return PlaceNow(needs, {});
  };
  const auto serves = [this](const WorkerId& id) {
    const Worker* worker = registry_.Find(id);
    return id.is_zero() || (worker != nullptr && worker->load.state == WorkerState::kServing);
  };
  if (hold_->pair.prefill.is_zero() || !serves(hold_->pair.prefill) || !serves(hold_->pair.decode)) {
    const PlacementResult chosen = place(CountsAsIdle::kAll);
    if (chosen.verdict != PlacementVerdict::kPlaced) return EndHold(*hold_->job);
    hold_->pair = chosen.pair;
  }
  hold_->workers.clear();
  const bool solo = hold_->pair.decode.is_zero();
  if (!solo) hold_->workers.push_back(hold_->pair.decode);
  if (solo || place(CountsAsIdle::kPrefill).verdict == PlacementVerdict::kPlaced) {
    hold_->workers.push_back(hold_->pair.prefill);
  }
  longest_fitting_.fill(std::nullopt);
}

void PlacingQueue::EndHold(const DispatchJob& job) {
  if (held() != &job) return;
  const TimeNs now = clock_.Now();
  next_hold_ = now + (now - hold_->since);
  hold_.reset();
  needs_placing_ = true;
}

// Ranks as if the next prompt went to the prefill worker with the least to compute. That takes short prompts, which a
// decode worker will compute itself, for late too soon.
void PlacingQueue::RankJobs(TimeNs now) {
  if (line_.size() == 0) return;
  line_.TakeTurns();
  if (const std::optional<int64_t> least = LeastUncomputedTokens()) line_.Rank(now, *least);
}

PlacementResult PlacingQueue::PlaceNow(const JobNeeds& needs, const std::vector<WorkerId>& avoid) const {
  const auto& assigned = ledger_.assigned();
  return Place(registry_, assigned, needs, options_.placement, avoid, health_.Now(assigned));
}

PlacementResult PlacingQueue::TryPlace(DispatchJob& job) {
  PlacementResult placed = PlaceNow(NeedsOf(job), AvoidedWorkers(job));
  // A job that goes on waits for a worker that can go on with it: GiveUpTime says for how long.
  if (placed.verdict == PlacementVerdict::kImpossible && (GoesOn(job) || FitsReturningWorkers(job))) {
    placed.verdict = PlacementVerdict::kBusy;
  }
  return placed;
}

bool PlacingQueue::FitsReturningWorkers(const DispatchJob& job) {
  if (returning_.empty()) return false;
  if (!everybody_) everybody_ = returning_.Everybody(registry_);
  return Place(*everybody_, {}, NeedsOf(job), options_.placement, {}).verdict == PlacementVerdict::kPlaced;
}

int64_t PlacingQueue::LongestFitting(size_t job_class) {
  std::optional<int64_t>& longest = longest_fitting_[job_class];
  if (longest) return *longest;
  longest = 0;
  const std::multiset<int64_t>& waiting = waiting_prompts_[job_class];
  if (waiting.empty()) return 0;
  const std::vector<WorkerId> avoid = hold_ ? hold_->workers : std::vector<WorkerId>();
  const auto fits = [&](int64_t prompt_tokens) {
    JobNeeds needs = JobNeeds::OfClass(job_class);
    needs.prompt_tokens = prompt_tokens;
    return PlaceNow(needs, avoid).verdict == PlacementVerdict::kPlaced;
  };
  if (!fits(*waiting.begin())) return 0;
  longest = *waiting.begin();
  for (int64_t too_long = *waiting.rbegin() + 1; *longest + 1 < too_long;) {
    const int64_t middle = (*longest + too_long) / 2;
    (fits(middle) ? *longest : too_long) = middle;
  }
  return *longest;
}

bool PlacingQueue::SomeMayFit() {
  for (size_t i = 0; i < JobNeeds::kClasses; ++i) {
    if (LongestFitting(i) > 0) return true;
  }
  return false;
}

JobNeeds PlacingQueue::NeedsOf(const JobSpec& spec) const {
  return {.prompt_tokens = spec.prompt_tokens(), .kind = KindOf(spec), .features = FeaturesOf(spec.sampling)};
}

JobNeeds PlacingQueue::OwnNeedsOf(const DispatchJob& job) const {
  JobNeeds needs = NeedsOf(*job.spec);
  needs.fingerprint = job.fingerprint;
  needs.beside = job.beside;
  return needs;
}

// A worker that is full or ejected is slower and no less exact, so the job waits for it as ever.
JobNeeds PlacingQueue::NeedsOf(const DispatchJob& job) const {
  JobNeeds needs = OwnNeedsOf(job);
  needs.other_numerics = OtherNumericsAt(job) <= clock_.Now() && !SomeServe(needs);
  return needs;
}

TimeNs PlacingQueue::OtherNumericsAt(const DispatchJob& job) const {
  if (!job.spec->allows_other_numerics || job.outputs.empty()) return kNever;
  const int64_t half_ns = (job.spec->deadline - job.failed_at) / 2;
  return job.failed_at + std::min(options_.other_numerics_wait_ms * kNsPerMs, half_ns);
}

bool PlacingQueue::SomeServe(const JobNeeds& needs) const {
  return Place(registry_, {}, needs, options_.placement, {}).verdict <= PlacementVerdict::kBusy;
}

AttemptKind PlacingQueue::KindOf(const JobSpec& spec) const {
  if (spec.sampling.max_tokens - spec.emitted == 1) return AttemptKind::kSolo;
  return spec.prompt_tokens() < options_.local_prefill_tokens ? AttemptKind::kLocal : AttemptKind::kPair;
}

std::vector<WorkerId> PlacingQueue::AvoidedWorkers(DispatchJob& job) {
  const TimeNs now = clock_.Now();
  std::erase_if(job.refused_by, [&](const Refusal& refusal) {
    return refusal.retry_at <= now || registry_.Find(refusal.worker) == nullptr ||
           RoomEpoch(refusal.worker) != refusal.room_epoch;
  });
  std::vector<WorkerId> avoided;
  if (hold_ && hold_->job != &job) avoided = hold_->workers;
  for (const Refusal& refusal : job.refused_by) {
    avoided.push_back(refusal.worker);
    next_retry_ = std::min(next_retry_, refusal.retry_at);
  }
  return avoided;
}

bool PlacingQueue::LacksItsGroup(const DispatchJob& job) {
  if (OtherNumericsAt(job) != kNever) {
    JobNeeds needs = OwnNeedsOf(job);
    needs.other_numerics = true;
    if (SomeServe(needs)) return false;
  }
  switch (Place(registry_, {}, NeedsOf(job), options_.placement, {}).verdict) {
    case PlacementVerdict::kNoWorkers:
      return true;
    case PlacementVerdict::kImpossible:
      return !FitsReturningWorkers(job);
    case PlacementVerdict::kBusy:
    case PlacementVerdict::kPlaced:
      return false;
  }
  return false;
}

TimeNs PlacingQueue::GiveUpTime(const DispatchJob& job) {
  const size_t job_class = NeedsOf(*job.spec).job_class();
  const TimeNs since = missing_since_[job_class];
  if (GoesOn(job)) {
    // Whoever could go on with it may have drained as well as died, to be replaced.
    if (!LacksItsGroup(job)) return kNever;
    return std::max(After(job.failed_at, options_.worker_return_ms), since == kNever ? 0 : expected_until_[job_class]);
  }
  if (since == kNever) return kNever;
  return std::max(After(std::max(since, job.marks.arrived), options_.no_worker_wait_ms), expected_until_[job_class]);
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
  const TimeNs now = clock_.Now();
  if (returning_.NextExpiry() <= now) {
    returning_.Expire(now);
    OnWorkersChanged();
  }
  if (next_other_numerics_ <= now) {
    next_other_numerics_ = kNever;
    for (const auto& [place, job] : line_.jobs()) {
      const TimeNs at = OtherNumericsAt(*job);
      if (at > now) next_other_numerics_ = std::min(next_other_numerics_, at);
    }
    needs_placing_ = true;
  }
  if (next_retry_ > now) return;
  next_retry_ = kNever;
  needs_placing_ = true;
}

TimeNs PlacingQueue::NextTimer() const {
  return std::min({next_retry_, next_other_numerics_, next_give_up_, returning_.NextExpiry()});
}

}  // namespace baton::router
