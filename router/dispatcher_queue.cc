// Jobs come in, attempts begin, workers join, and time passes.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "router/dispatcher_impl.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

// How often the dispatcher looks for silent workers.
constexpr int64_t kWatchIntervalMs = 100;

// What a prompt lacks in the workers of one side; empty when one of them holds it, or when there is none.
std::string LackOfBlocks(const WorkerRegistry& registry, int64_t prompt_tokens, Side side) {
  const Worker* roomiest = nullptr;
  const auto spare = [&](const WorkerInfo& info) {
    return info.total_blocks -
           (side == Side::kPrefill ? info.PromptBlocks(prompt_tokens) : info.DecodeBlocks(prompt_tokens));
  };
  for (const auto& [id, worker] : registry.workers()) {
    if (!(side == Side::kPrefill ? worker.can_prefill() : worker.can_decode())) continue;
    if (roomiest == nullptr || spare(worker.info) > spare(roomiest->info)) roomiest = &worker;
  }
  if (roomiest == nullptr || spare(roomiest->info) >= 0) return "";
  const int32_t needed = roomiest->info.total_blocks - spare(roomiest->info);
  return absl::StrCat("need ", needed, " KV blocks ", side == Side::kPrefill ? "for prefill" : "for decode",
                      ", and the largest such worker, ", RoleName(roomiest->info.role), " ", roomiest->info.target,
                      ", has ", roomiest->info.total_blocks);
}

}  // namespace

Dispatcher::Impl::Impl(const DispatcherOptions& options, const Clock& clock, RandomSource& random)
    : options_(options),
      clock_(clock),
      random_(random),
      blocks_(clock),
      health_(clock, random, registry_, options.canary_interval_ms == 0 ? 0 : kCanaryTrialMs),
      queue_(options.placing, clock, registry_, ledger_, health_),
      poisoned_(clock),
      retries_(random),
      buckets_(options.tenant_buckets),
      canaries_({.interval_ms = options.canary_interval_ms, .echo_wait_ms = options.echo_wait_ms},
                {.clock = clock,
                 .random = random,
                 .registry = registry_,
                 .ledger = ledger_,
                 .health = health_,
                 .actions = actions_}) {}

absl::Status Dispatcher::Impl::Submit(std::shared_ptr<const JobSpec> spec) {
  BATON_RETURN_IF_ERROR(CheckNew(*spec));
  const TimeNs now = clock_.Now();
  auto owned = std::make_unique<DispatchJob>();
  DispatchJob& job = *owned;
  job.spec = std::move(spec);
  job.place_in_line = next_place_++;
  job.marks.arrived = job.spec->arrived.value_or(now);
  job.last_attempt = job.spec->attempts_before;
  job.fingerprint = job.spec->fingerprint;
  // Its workers are waited for as if they had been lost just now. It has waited for a former router, and jobs that are
  // new would go before it at each router anew.
  if (job.spec->is_recovered) job.failed_at = now;
  if (job.spec->is_recovered) job.line_rank = LineRank::kOverdue;
  TakeTokens(job);
  jobs_.emplace(job.spec->key(), std::move(owned));
  const bool follows = job.spec->follows.has_value() && *job.spec->follows != job.spec->choice &&
                       jobs_.contains({.job = job.spec->id, .choice = *job.spec->follows});
  if (follows) {
    job.state = JobState::kFollowing;
    following_.insert(job.spec->key());
  } else {
    queue_.Add(job);
  }
  if (job.spec->deadline <= now) {
    End(job, absl::DeadlineExceededError("the deadline had passed when the request came"));
    return absl::OkStatus();
  }
  SetTimer(job, follows ? job.spec->deadline : LastStart(job));
  // The client learns this at once, however long the line is.
  if (!follows && queue_.FitsNoWorker(job)) {
    End(job, Impossible(*job.spec));
    return absl::OkStatus();
  }
  PlaceQueued();
  return absl::OkStatus();
}

absl::Status Dispatcher::Impl::OnWorkerJoin(const WorkerInfo& info) {
  const TimeNs now = clock_.Now();
  BATON_RETURN_IF_ERROR(registry_.CheckJoin(info));
  if (const Worker* before = registry_.FindProcess(info.incarnation)) {
    GiveUp(before->info.id, absl::UnavailableError("it joined anew"), LossReason::kRejoined);
  }
  BATON_RETURN_IF_ERROR(registry_.Join(info, now));
  memberships_.CountJoin(info.role);
  health_.OnWorkerJoined(info.id);
  next_watch_ = std::min(next_watch_, After(now, kWatchIntervalMs));
  queue_.OnWorkerJoined(info);
  queue_.OnWorkersChanged();
  needs_moving_ = drains_;
  PlaceQueued();
  return absl::OkStatus();
}

bool Dispatcher::Impl::OnWorkerRefused(RefusedWorker refused) {
  const bool is_new = registry_.refused().Add(std::move(refused));
  if (is_new) ++memberships_.refused;
  return is_new;
}

void Dispatcher::Impl::OnWorkersAnnounced(const std::vector<WorkerInfo>& announced) {
  queue_.OnWorkersAnnounced(announced);
  queue_.OnWorkersChanged();
  PlaceQueued();
}

void Dispatcher::Impl::OnWorkerLoad(const WorkerId& id, const WorkerLoad& load) {
  const Worker* worker = registry_.Find(id);
  if (worker == nullptr) return;
  if (load.step_age_ms > options_.engine_stall_ms) {
    GiveUp(id,
           absl::UnavailableError(absl::StrCat("its engine has been in one step for ", load.step_age_ms,
                                               " ms, longer than ", options_.engine_stall_ms)),
           LossReason::kStalled);
    return PlaceQueued();
  }
  const bool state_changed = worker->load.state != load.state;
  registry_.Heartbeat(id, load, clock_.Now());
  ledger_.OnLoadHeard(id);
  queue_.OnRoomChanged(id);
  if (state_changed) {
    queue_.OnWorkersChanged();
    NoteDrains();
  }
  needs_moving_ = drains_;
  PlaceQueued();
}

// Running jobs go first: they have nowhere to wait.
void Dispatcher::Impl::PlaceQueued() {
  if (needs_moving_) StartMoves();
  queue_.PlaceJobs([this] { return HasCallRoom(); }, [this](DispatchJob& job) { StartAttempt(job); },
                   [this](DispatchJob& job) { End(job, Impossible(*job.spec)); });
}

bool Dispatcher::Impl::HasCallRoom() const {
  return running_jobs() < options_.max_running_jobs && open_calls() + 2 <= 2 * options_.max_running_jobs;
}

void Dispatcher::Impl::StartAttempt(DispatchJob& job) {
  const Pair& pair = job.pair;
  job.state = JobState::kPlaced;
  job.attempt_placed = clock_.Now();
  if (!job.marks.placed) job.marks.placed = job.attempt_placed;
  job.attempt = ++job.last_attempt;
  ++job.result.attempts;
  health_.OnPlaced(pair);
  SetTimer(job, job.spec->deadline);
  const int64_t tokens = job.spec->prompt_tokens();
  job.tokens_to_first = AssignmentOf(ledger_.assigned(), pair.prefill).uncomputed_prompt_tokens + tokens;
  const JobKey key = job.key();
  const Id128 secret = random_.NextId();
  const Worker* prefill = registry_.Find(pair.prefill);
  const Worker* decode = registry_.Find(pair.decode);
  job.result.prefill_worker = job.kind == AttemptKind::kLocal ? "" : prefill->info.target;
  job.result.decode_worker = job.kind == AttemptKind::kSolo ? "" : decode->info.target;
  if (job.kind != AttemptKind::kLocal) {
    ledger_.Open({Side::kPrefill, key}, {.worker = pair.prefill, .prompt_tokens = tokens});
    actions_.push_back(StartPrefill{.worker = pair.prefill,
                                    .incarnation = prefill->info.incarnation,
                                    .target = prefill->info.target,
                                    .key = key,
                                    .secret = secret,
                                    .job = job.spec,
                                    .solo = job.kind == AttemptKind::kSolo,
                                    .reader = job.kind == AttemptKind::kSolo ? WorkerId{} : pair.decode});
  }
  job.origins.clear();
  if (job.kind == AttemptKind::kSolo) return;
  const bool local = job.kind == AttemptKind::kLocal;
  ledger_.Open(
      {Side::kDecode, key},
      {.worker = pair.decode, .prompt_tokens = local ? tokens : 0, .blocks = decode->info.PromptBlocks(tokens)});
  StartDecode start{.worker = pair.decode,
                    .incarnation = decode->info.incarnation,
                    .target = decode->info.target,
                    .key = key,
                    .secret = secret,
                    .job = job.spec,
                    .local_prefill = local,
                    .prefill_incarnation = {},
                    .prefill_target = {},
                    .source = {}};
  if (!local) {
    start.prefill_incarnation = prefill->info.incarnation;
    start.prefill_target = prefill->info.target;
    start.source = pair.prefill;
    job.origins = {{.incarnation = prefill->info.incarnation, .target = prefill->info.target}};
  }
  actions_.push_back(std::move(start));
}

void Dispatcher::Impl::Requeue(DispatchJob& job) {
  job.state = JobState::kQueued;
  LeaveWorkers(job);
  queue_.Add(job);
  SetTimer(job, LastStart(job));
}

void Dispatcher::Impl::LeaveWorkers(DispatchJob& job) {
  job.pair = {};
  job.prompt_started = false;
  job.committed = false;
  job.timed_output = -1;
  job.echo.reset();
  job.prompt.clear();
  job.held_back.clear();
  if (job.outputs.empty()) {
    // Nobody has seen anything of it yet.
    job.marks = {.arrived = job.marks.arrived, .placed = {}, .admitted = {}, .first_token = {}, .committed = {}};
    job.result.looked_up_tokens = 0;
    job.result.cached_tokens = 0;
  }
}

absl::Status Dispatcher::Impl::Impossible(const JobSpec& spec) const {
  const int64_t tokens = spec.prompt_tokens();
  int32_t context_length = 0;
  for (const auto& [id, worker] : registry_.workers()) {
    context_length = std::max(context_length, worker.info.context_length);
  }
  std::string limit;
  if (tokens >= context_length) {
    limit = absl::StrCat("do not fit the workers' context of ", context_length, " tokens with one of output");
  } else if (limit = LackOfBlocks(registry_, tokens, Side::kPrefill); limit.empty()) {
    limit = LackOfBlocks(registry_, tokens, Side::kDecode);
  }
  if (limit.empty()) limit = "fit no prefill worker and decode worker of equal fingerprints together";
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat("prompt: its ", tokens, " tokens ", limit,
                                              ": send a shorter prompt or give workers more --kv-memory")),
      RefusalReason::kTooLong);
}

absl::Status Dispatcher::Impl::NobodyGoesOn(const DispatchJob& job) {
  const char* const who = job.spec->allows_other_numerics ? "of its model" : "of its fingerprint";
  return WithReason(
      absl::UnavailableError(absl::StrCat(job.failure.message(), "; after ", job.next_index(),
                                          " output tokens no other worker ", who, " can go on: send it again")),
      RefusalReason::kNoWorkers);
}

absl::Status Dispatcher::Impl::NobodyServes(const DispatchJob& job) const {
  const auto& workers = registry_.workers();
  const JobFeatures needed = FeaturesOf(job.spec->sampling);
  JobFeatures unknown = 0;
  int misreading = 0;
  for (const auto& [id, worker] : workers) {
    if (Covers(worker.info.job_features, needed)) continue;
    unknown |= static_cast<JobFeatures>(needed & ~worker.info.job_features);
    ++misreading;
  }
  const int64_t waited_ms = (clock_.Now() - job.marks.arrived) / kNsPerMs;
  return WithReason(absl::UnavailableError(absl::StrCat(
                        "no workers for this request within ", waited_ms, " ms (", workers.size(), " joined",
                        misreading > 0 ? absl::StrCat(", of which ", misreading,
                                                      " are of a version that does not know its ", NamesOf(unknown))
                                       : "",
                        "): start prefill and decode workers, or mixed ones, of equal fingerprints",
                        misreading > 0 ? " and of this version" : "")),
                    RefusalReason::kNoWorkers);
}

void Dispatcher::Impl::EndUnservedJobs() {
  for (DispatchJob* job : queue_.UnservedJobs()) {
    if (!job->outputs.empty()) {
      End(*job, NobodyGoesOn(*job));
      continue;
    }
    End(*job, NobodyServes(*job));
  }
}

// A paused router has heard nobody. Its workers have the whole bound again, in which it reads what they sent.
void Dispatcher::Impl::WatchWorkers(TimeNs now) {
  if (now - next_watch_ > options_.pause_ms * kNsPerMs) woke_at_ = now;
  const TimeNs before = now - options_.worker_silence_ms * kNsPerMs;
  if (woke_at_ <= before) {
    for (const WorkerId& id : registry_.Silent(before)) {
      GiveUp(id, absl::UnavailableError(absl::StrCat("not heard for ", options_.worker_silence_ms, " ms")),
             LossReason::kSilent);
    }
  }
  next_watch_ = registry_.workers().empty() ? kNever : After(now, kWatchIntervalMs);
}

void Dispatcher::Impl::SetTimer(DispatchJob& job, TimeNs at) {
  if (job.timer == at) return;
  if (job.timer != kNever) timers_.erase({job.timer, job.spec->key()});
  job.timer = at;
  if (at != kNever) timers_.emplace(at, job.spec->key());
}

void Dispatcher::Impl::OnJobTimer(DispatchJob& job) {
  if (job.state == JobState::kFinishing) return End(job, absl::OkStatus());
  if (job.state == JobState::kQueued && job.spec->deadline > clock_.Now()) return Drop(job);
  if (job.state == JobState::kPaused && job.spec->deadline > clock_.Now()) return End(job, SlowReader());
  if (job.spec->deadline > clock_.Now()) return OnError(job, *job.echo);
  const bool waits = job.state == JobState::kQueued || job.state == JobState::kFollowing;
  const char* where = waits                            ? "waiting in the queue"
                      : job.state == JobState::kPlaced ? "waiting for its first token"
                      : job.state == JobState::kPaused ? "paused because its client did not read"
                                                       : "generating";
  End(job, absl::DeadlineExceededError(absl::StrCat("the deadline passed while the request was ", where)));
}

void Dispatcher::Impl::OnTimer() {
  const TimeNs now = clock_.Now();
  while (!timers_.empty() && timers_.begin()->first <= now) OnJobTimer(*jobs_.at(timers_.begin()->second));
  if (next_watch_ <= now) WatchWorkers(now);
  queue_.OnTimer();
  EndUnservedJobs();
  PlaceQueued();
  canaries_.OnTimer(queue_.size() == 0 && HasCallRoom());
}

TimeNs Dispatcher::Impl::NextTimer() const {
  const TimeNs job = timers_.empty() ? kNever : timers_.begin()->first;
  return std::min({job, queue_.NextTimer(), next_watch_, canaries_.NextTimer()});
}

}  // namespace baton::router
