// The line of waiting jobs, placing, and everything that happens by time.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/kv_layout.h"
#include "common/status.h"
#include "router/dispatcher_impl.h"

namespace baton::router {
namespace {

// Jobs behind the head that are tried while the head does not fit.
constexpr int kMaxLookAhead = 32;

JobNeeds Needs(AttemptKind kind, int64_t prompt_tokens) {
  return {.prompt_tokens = prompt_tokens, .solo = kind == AttemptKind::kSolo, .local = kind == AttemptKind::kLocal};
}

int64_t PromptTokens(const JobSpec& spec) { return static_cast<int64_t>(spec.prompt.size()); }

}  // namespace

Dispatcher::Impl::Impl(const DispatcherOptions& options, const Clock& clock)
    : options_(options), clock_(clock), line_(options.ttft_target_ms * kNsPerMs) {
  missing_since_.fill(clock.Now());
}

absl::Status Dispatcher::Impl::Submit(std::shared_ptr<const JobSpec> spec) {
  if (spec->prompt.empty()) return absl::InvalidArgumentError("prompt: must hold at least one token");
  if (jobs_.contains(spec->key())) {
    return absl::AlreadyExistsError(absl::StrCat("job ", spec->key().ToString(), " is here"));
  }
  if (queued_jobs() >= options_.max_queued_jobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", options_.max_queued_jobs, " places in the queue are taken"));
  }
  const TimeNs now = clock_.Now();
  auto owned = std::make_unique<DispatchJob>();
  DispatchJob& job = *owned;
  job.spec = std::move(spec);
  job.place_in_line = next_place_++;
  job.marks.submitted = now;
  jobs_.emplace(job.spec->key(), std::move(owned));
  line_.Add(job);
  if (job.spec->deadline <= now) {
    End(job, absl::DeadlineExceededError("the deadline had passed when the request came"));
    return absl::OkStatus();
  }
  SetTimer(job, job.spec->deadline);
  // Told at once, however long the line is.
  if (PlaceNow(job).verdict == PlacementVerdict::kImpossible) {
    End(job, Impossible(*job.spec));
    return absl::OkStatus();
  }
  next_give_up_ = std::min(next_give_up_, GiveUpTime(job));
  if (line_.AmongFirst(job, kMaxLookAhead + 1)) needs_placing_ = true;
  PlaceQueued();
  return absl::OkStatus();
}

absl::Status Dispatcher::Impl::OnWorkerJoin(const WorkerInfo& info) {
  const TimeNs now = clock_.Now();
  BATON_RETURN_IF_ERROR(registry_.Join(info, now));
  load_epochs_[info.id] = 0;
  next_silence_ = std::min(next_silence_, After(now, options_.worker_silence_ms));
  OnWorkersChanged();
  PlaceQueued();
  return absl::OkStatus();
}

void Dispatcher::Impl::OnWorkerLoad(const WorkerId& id, const WorkerLoad& load) {
  const Worker* worker = registry_.Find(id);
  if (worker == nullptr) return;
  const bool state_changed = worker->load.state != load.state;
  registry_.Heartbeat(id, load, clock_.Now());
  ledger_.OnLoadHeard(id);
  OnRoom(id);
  if (state_changed) OnWorkersChanged();
  PlaceQueued();
}

void Dispatcher::Impl::OnRoom(const WorkerId& worker) {
  if (const auto it = load_epochs_.find(worker); it != load_epochs_.end()) ++it->second;
  needs_placing_ = true;
}

void Dispatcher::Impl::OnWorkersChanged() {
  const TimeNs now = clock_.Now();
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const JobNeeds needs = Needs(static_cast<AttemptKind>(kind), 0);
    const bool missing = Place(registry_, {}, needs, options_.placement, {}).verdict == PlacementVerdict::kNoWorkers;
    if (!missing) {
      missing_since_[kind] = kNever;
    } else if (missing_since_[kind] == kNever) {
      missing_since_[kind] = now;
      next_give_up_ = std::min(next_give_up_, After(now, options_.no_worker_wait_ms));
    }
  }
  needs_placing_ = true;
}

// In order of line; what does not fit is passed over, the head a bounded number of times.
void Dispatcher::Impl::PlaceQueued() {
  if (!needs_placing_) return;
  needs_placing_ = false;
  const TimeNs now = clock_.Now();
  RankQueued(now);
  const WaitingLine::Jobs& line = line_.jobs();
  int waiting = 0;
  for (auto it = line.begin(); it != line.end() && waiting <= kMaxLookAhead && HasCallRoom();) {
    DispatchJob& head = *line.begin()->second;
    DispatchJob& job = *it->second;
    if (&job != &head && head.passed_over >= options_.max_passed_over) return;
    ++it;
    // OnTimer will end it.
    const bool late = job.spec->deadline <= now;
    const PlacementResult placed = late ? PlacementResult{} : PlaceNow(job);
    switch (placed.verdict) {
      case PlacementVerdict::kPlaced:
        if (&job != &head && ++head.passed_over == options_.max_passed_over) line_.Hurry(head);
        StartAttempt(job, placed.pair);
        break;
      case PlacementVerdict::kImpossible:
        End(job, Impossible(*job.spec));
        needs_placing_ = false;
        break;
      case PlacementVerdict::kBusy:
      case PlacementVerdict::kNoWorkers:
        ++waiting;
        break;
    }
  }
}

// As if the next prompt went to the prefill worker with the least to compute: short ones that a decode worker will
// compute itself are taken for late too soon.
void Dispatcher::Impl::RankQueued(TimeNs now) {
  if (line_.size() == 0) return;
  std::optional<int64_t> least;
  for (const auto& [id, worker] : registry_.workers()) {
    if (!worker.can_prefill() || worker.load.state != WorkerState::kServing) continue;
    const int64_t tokens = Uncomputed(id);
    least = std::min(least.value_or(tokens), tokens);
  }
  if (least) line_.Rank(now, *least);
}

int64_t Dispatcher::Impl::Uncomputed(const WorkerId& worker) const {
  return AssignmentOf(ledger_.assigned(), worker).uncomputed_prompt_tokens;
}

bool Dispatcher::Impl::HasCallRoom() const {
  return running_jobs() < options_.max_running_jobs && open_calls() + 2 <= 2 * options_.max_running_jobs;
}

PlacementResult Dispatcher::Impl::PlaceNow(DispatchJob& job) {
  const JobNeeds needs = Needs(KindOf(*job.spec), PromptTokens(*job.spec));
  return Place(registry_, ledger_.assigned(), needs, options_.placement, Avoided(job));
}

AttemptKind Dispatcher::Impl::KindOf(const JobSpec& spec) const {
  if (spec.sampling.max_tokens == 1) return AttemptKind::kSolo;
  return PromptTokens(spec) < options_.local_prefill_tokens ? AttemptKind::kLocal : AttemptKind::kPair;
}

std::vector<WorkerId> Dispatcher::Impl::Avoided(DispatchJob& job) {
  const TimeNs now = clock_.Now();
  std::erase_if(job.refused_by, [&](const Refusal& refusal) {
    const auto epoch = load_epochs_.find(refusal.worker);
    return refusal.retry_at <= now || epoch == load_epochs_.end() || epoch->second != refusal.load_epoch;
  });
  std::vector<WorkerId> avoided;
  for (const Refusal& refusal : job.refused_by) {
    avoided.push_back(refusal.worker);
    next_retry_ = std::min(next_retry_, refusal.retry_at);
  }
  return avoided;
}

void Dispatcher::Impl::StartAttempt(DispatchJob& job, const Pair& pair) {
  line_.Remove(job);
  job.state = JobState::kPlaced;
  job.kind = pair.prefill == pair.decode ? AttemptKind::kLocal : KindOf(*job.spec);
  job.pair = pair;
  job.marks.placed = clock_.Now();
  ++job.attempt;
  const int64_t tokens = PromptTokens(*job.spec);
  job.tokens_to_first = Uncomputed(pair.prefill) + tokens;
  const JobKey key = job.key();
  const Worker* prefill = registry_.Find(pair.prefill);
  if (job.kind != AttemptKind::kLocal) {
    ledger_.Open({Side::kPrefill, key}, {.worker = pair.prefill, .prompt_tokens = tokens});
    actions_.push_back(StartPrefill{.worker = pair.prefill,
                                    .target = prefill->info.target,
                                    .key = key,
                                    .job = job.spec,
                                    .solo = job.kind == AttemptKind::kSolo});
  }
  if (job.kind == AttemptKind::kSolo) return;
  const bool local = job.kind == AttemptKind::kLocal;
  const Worker* decode = registry_.Find(pair.decode);
  ledger_.Open(
      {Side::kDecode, key},
      {.worker = pair.decode, .prompt_tokens = local ? tokens : 0, .blocks = decode->info.PromptBlocks(tokens)});
  StartDecode start{.worker = pair.decode,
                    .target = decode->info.target,
                    .key = key,
                    .job = job.spec,
                    .local_prefill = local,
                    .prefill_worker = {},
                    .prefill_target = {}};
  if (!local) {
    start.prefill_worker = pair.prefill;
    start.prefill_target = prefill->info.target;
  }
  actions_.push_back(std::move(start));
}

void Dispatcher::Impl::Requeue(DispatchJob& job) {
  job.state = JobState::kQueued;
  job.pair = {};
  job.committed = false;
  job.echo.reset();
  job.marks = {.submitted = job.marks.submitted, .placed = {}, .admitted = {}, .first_token = {}, .committed = {}};
  job.result.cached_tokens = 0;
  line_.Add(job);
  SetTimer(job, job.spec->deadline);
  next_give_up_ = std::min(next_give_up_, GiveUpTime(job));
}

absl::Status Dispatcher::Impl::Impossible(const JobSpec& spec) const {
  int32_t needed = 0;
  int32_t blocks = 0;
  int32_t context_length = 0;
  for (const auto& [id, worker] : registry_.workers()) {
    needed = std::max(needed, worker.info.DecodeBlocks(PromptTokens(spec)));
    blocks = std::max(blocks, worker.info.total_blocks);
    context_length = std::max(context_length, worker.info.context_length);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "prompt: its ", spec.prompt.size(), " tokens need ", needed, " KV blocks; the largest worker has ", blocks,
      " and a context of ", context_length, " tokens: send a shorter prompt or give the workers more --kv-memory"));
}

TimeNs Dispatcher::Impl::GiveUpTime(const DispatchJob& job) const {
  const TimeNs since = missing_since_[static_cast<size_t>(KindOf(*job.spec))];
  if (since == kNever) return kNever;
  return After(std::max(since, job.marks.submitted), options_.no_worker_wait_ms);
}

void Dispatcher::Impl::EndUnservedJobs() {
  const TimeNs now = clock_.Now();
  next_give_up_ = kNever;
  std::vector<DispatchJob*> unserved;
  for (const auto& [place, job] : line_.jobs()) {
    const TimeNs give_up = GiveUpTime(*job);
    if (give_up <= now) {
      unserved.push_back(job);
    } else {
      next_give_up_ = std::min(next_give_up_, give_up);
    }
  }
  for (DispatchJob* job : unserved) {
    End(*job,
        absl::UnavailableError(absl::StrCat(
            "no workers for this request within ", options_.no_worker_wait_ms, " ms (", registry_.workers().size(),
            " joined): start prefill and decode workers, or mixed ones, of equal fingerprints")));
  }
}

void Dispatcher::Impl::EndSilentWorkers() {
  const int64_t silence_ns = options_.worker_silence_ms * kNsPerMs;
  for (const WorkerId& id : registry_.Silent(clock_.Now() - silence_ns)) {
    OnWorkerLost(id, absl::UnavailableError(absl::StrCat("not heard for ", options_.worker_silence_ms, " ms")));
  }
  next_silence_ = kNever;
  for (const auto& [id, worker] : registry_.workers()) {
    next_silence_ = std::min(next_silence_, worker.last_heard + silence_ns);
  }
}

void Dispatcher::Impl::SetTimer(DispatchJob& job, TimeNs at) {
  if (job.timer != kNever) timers_.erase({job.timer, job.spec->key()});
  job.timer = at;
  if (at != kNever) timers_.emplace(at, job.spec->key());
}

void Dispatcher::Impl::OnJobTimer(DispatchJob& job) {
  if (job.state == JobState::kFinishing) return End(job, absl::OkStatus());
  if (job.spec->deadline > clock_.Now()) return End(job, *job.echo);
  const char* where = job.state == JobState::kQueued   ? "waiting in the queue"
                      : job.state == JobState::kPlaced ? "waiting for its first token"
                                                       : "generating";
  End(job, absl::DeadlineExceededError(absl::StrCat("the deadline passed while the request was ", where)));
}

void Dispatcher::Impl::OnTimer() {
  const TimeNs now = clock_.Now();
  while (!timers_.empty() && timers_.begin()->first <= now) OnJobTimer(*jobs_.at(timers_.begin()->second));
  if (next_silence_ <= now) EndSilentWorkers();
  if (next_give_up_ <= now) EndUnservedJobs();
  if (next_retry_ <= now) {
    next_retry_ = kNever;
    needs_placing_ = true;
  }
  PlaceQueued();
}

TimeNs Dispatcher::Impl::NextTimer() const {
  const TimeNs job = timers_.empty() ? kNever : timers_.begin()->first;
  return std::min({job, next_retry_, next_give_up_, next_silence_});
}

}  // namespace baton::router
