#include "router/dispatcher.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "router/dispatcher_impl.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

Side Other(Side side) { return side == Side::kPrefill ? Side::kDecode : Side::kPrefill; }

// Whether the error may be a mere consequence of the other side's failure. A cancelled call may be one. So may a fetch
// that broke or found nothing, because D learns no more than that of a P that has refused or died.
bool MaybeEcho(Side side, const absl::Status& status) {
  if (absl::IsCancelled(status)) return true;
  return side == Side::kDecode && (absl::IsUnavailable(status) || absl::IsNotFound(status));
}

std::string TokenText(const OutputToken& token) {
  return absl::StrCat(token.token, token.is_last() ? " as the last" : "");
}

// Whether another attempt may have more luck: the hand-off or a worker failed, and not the request.
// A worker that does not know the attempt, or is another process by now, was lost as well.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDataLoss(status) || absl::IsNotFound(status) ||
         absl::IsFailedPrecondition(status);
}

absl::Status TokenError(const OutputToken& token, int32_t expected) {
  return absl::InternalError(absl::StrCat("output token ", token.index, " came where ", expected, " was due"));
}

}  // namespace

DispatchJob* Dispatcher::Impl::FindJob(const JobKey& key) {
  const auto it = jobs_.find(key.choice_key());
  if (it == jobs_.end()) return nullptr;
  DispatchJob* job = it->second.get();
  return job->attempt == key.attempt && job->state != JobState::kQueued ? job : nullptr;
}

void Dispatcher::Impl::Cancel(const ChoiceKey& key, const absl::Status& why) {
  const auto it = jobs_.find(key);
  if (it == jobs_.end()) return;
  DispatchJob& job = *it->second;
  if (!why.ok()) {
    End(job, why);
  } else if (job.state != JobState::kFinishing) {
    Finish(job, FinishReason::kStop);
  }
  PlaceQueued();
}

void Dispatcher::Impl::OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update) {
  Call* call = ledger_.Find({side, key});
  if (call == nullptr || !call->live()) return;
  DispatchJob* job = FindJob(key);
  // A live call has its job: the end of a job leaves its calls cancelled or finished.
  BATON_CHECK(job != nullptr) << key.ToString();
  const bool computes_prompt = side == job->prompt_side();
  if (!update.kv_digest.empty()) job->result.kv_digest = update.kv_digest;
  switch (update.kind) {
    case WorkerUpdate::Kind::kStarted:
      call->started = true;
      if (side == Side::kDecode || job->kind == AttemptKind::kSolo) queue_.OnAdmitted(*job);
      if (!computes_prompt) break;
      job->prompt_started = true;
      if (!job->marks.admitted) job->marks.admitted = clock_.Now();
      if (job->spec->emitted == 0) {
        job->result.looked_up_tokens = static_cast<int32_t>(job->spec->prompt_tokens());
        job->result.cached_tokens = update.cached_tokens;
      }
      ledger_.OnComputed(*call, update.cached_tokens);
      queue_.OnRoomChanged();
      break;
    case WorkerUpdate::Kind::kKvCommitted:
      if (side == Side::kPrefill || job->committed) break;
      job->committed = true;
      if (!job->marks.committed) job->marks.committed = clock_.Now();
      // A job that a stop string or its client ends has no other report.
      job->result.decode = update.report;
      break;
    case WorkerUpdate::Kind::kToken:
      if (computes_prompt && call->prompt_tokens > 0) {
        ledger_.OnComputed(*call, call->prompt_tokens);
        queue_.OnRoomChanged();
      }
      OnToken(*job, side, update.token);
      break;
    case WorkerUpdate::Kind::kFinished:
      call->finished = true;
      OnFinishedUpdate(*job, side, update);
      break;
  }
  PlaceQueued();
}

void Dispatcher::Impl::OnToken(DispatchJob& job, Side side, const OutputToken& token) {
  if (job.state == JobState::kFinishing) return;
  const int32_t first_index = job.spec->emitted;
  const int32_t limit = side == Side::kPrefill ? first_index + 1 : job.spec->sampling.max_tokens;
  if (token.index < first_index || token.index >= limit || token.index > job.next_index()) {
    return End(job, TokenError(token, job.next_index()));
  }
  if (token.index < job.next_index()) {
    if (token.index != first_index) return End(job, TokenError(token, job.next_index()));
    if (token == job.first) return;
    return End(job, absl::InternalError(absl::StrCat("prefill and decode disagree on output token ", first_index, ": ",
                                                     TokenText(job.first), " then ", TokenText(token))));
  }
  if (token.index == first_index) {
    OnFirstToken(job, side, token);
  } else {
    // The first output of an attempt proves nothing of the worker that decodes it: a request that kills each of these
    // in its first step would otherwise go on for ever.
    job.losses = 0;
    job.errors = 0;
  }
  job.outputs.push_back(token.token);
  actions_.push_back(EmitToken{.key = job.spec->key(), .token = token});
  if (!token.is_last()) return;
  job.last_token_from = side;
  // Token 0 is the only one: nothing is transferred.
  if (side == Side::kPrefill && first_index == 0) job.marks.committed = job.marks.first_token;
  Finish(job, token.finish);
}

// The phases are those of the attempt that gave output 0. What came later, with the pause of a failover, is decode.
void Dispatcher::Impl::OnFirstToken(DispatchJob& job, Side side, const OutputToken& token) {
  const TimeNs now = clock_.Now();
  job.state = JobState::kStreaming;
  job.first = token;
  if (job.spec->emitted == 0) {
    job.marks.first_token = now;
    queue_.OnFirstToken(job, now - job.attempt_placed);
  }
  if (job.fingerprint.empty()) {
    const Worker* worker = registry_.Find(side == Side::kPrefill ? job.pair.prefill : job.pair.decode);
    if (worker != nullptr) job.fingerprint = worker->info.fingerprint;
  }
  // Attempts of one worker transfer nothing, and a token of D means that D has the KV.
  if (job.kind != AttemptKind::kPair || side == Side::kDecode) {
    job.committed = true;
    if (!job.marks.committed) job.marks.committed = now;
  }
}

void Dispatcher::Impl::OnFinishedUpdate(DispatchJob& job, Side side, const WorkerUpdate& update) {
  (side == Side::kPrefill ? job.result.prefill : job.result.decode) = update.report;
  job.marks.NoteComputed(side == job.prompt_side(), update.report.compute_ns, clock_.Now());
  if (job.state == JobState::kFinishing) return EndIfReported(job);
  const Worker* worker = registry_.Find(side == Side::kPrefill ? job.pair.prefill : job.pair.decode);
  const std::string who = worker == nullptr ? "a lost worker" : worker->info.target;
  if (!job.has_token()) return End(job, absl::InternalError(absl::StrCat(who, " finished without a token")));
  if (side == Side::kDecode || job.kind == AttemptKind::kSolo) {
    return End(job, absl::InternalError(absl::StrCat(who, " finished without a last token")));
  }
  if (job.echo) OnError(job, *job.echo);
}

void Dispatcher::Impl::OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status) {
  const std::optional<Call> call = ledger_.Close({side, key});
  if (!call) return;
  DispatchJob* job = call->cancelled ? nullptr : FindJob(key);
  const bool no_room = absl::IsResourceExhausted(status) && !call->started && !call->finished;
  no_room ? queue_.OnRoomChanged() : queue_.OnRoomChanged(call->worker);
  if (job != nullptr && no_room && job->state == JobState::kPlaced) {
    OnRefusal(*job, *call, status);
  } else if (job != nullptr && !call->finished) {
    OnCallEnd(*job, side, *call, status);
  }
  PlaceQueued();
}

// The call of a running job has ended without kFinished.
void Dispatcher::Impl::OnCallEnd(DispatchJob& job, Side side, const Call& call, const absl::Status& status) {
  if (job.state == JobState::kFinishing) return EndIfReported(job);
  const absl::Status what =
      Describe(side, call.worker, status.ok() ? absl::InternalError("it ended its call too early") : status);
  if (job.echo) {
    const bool root = !status.ok() && !absl::IsCancelled(status);
    return OnError(job, root ? what : *job.echo);
  }
  // P has done its part for the router. D's call is open and will tell whether D has the KV.
  if (side == Side::kPrefill && job.kind == AttemptKind::kPair && job.has_token()) return;
  if (MaybeEcho(side, status) && IsLive(Other(side), job.key())) {
    job.echo = what;
    job.echo_from = call.worker;
    SetTimer(job, std::min(job.spec->deadline, After(clock_.Now(), options_.echo_wait_ms)));
    return;
  }
  OnError(job, what);
}

void Dispatcher::Impl::OnRefusal(DispatchJob& job, const Call& call, const absl::Status& status) {
  ++job.refusals;
  if (job.refusals >= options_.max_refusals) {
    return End(job,
               WithReason(absl::ResourceExhaustedError(absl::StrCat("no worker had room in ", job.refusals,
                                                                    " attempts, the last one: ", status.message())),
                          RefusalReason::kQueueFull));
  }
  job.NoteGivenUp(clock_.Now(), status.message());
  CancelCalls(job);
  queue_.OnRefusal(job, call.worker);
  Requeue(job);
}

void Dispatcher::Impl::OnWorkerLost(const WorkerId& id, const absl::Status& why) {
  Lose(id, why, LossReason::kDisconnected);
  PlaceQueued();
}

void Dispatcher::Impl::GiveUp(WorkerId id, const absl::Status& why, LossReason reason) {
  actions_.push_back(EndMembership{.worker = id, .why = why});
  Lose(id, why, reason);
}

void Dispatcher::Impl::Lose(WorkerId id, const absl::Status& why, LossReason reason) {
  const Worker* worker = registry_.Find(id);
  if (worker == nullptr) return;
  const WorkerLoss loss = {
      .worker = id,
      .drained = worker->load.state == WorkerState::kDraining,
      .what = absl::UnavailableError(absl::StrCat("worker ", worker->info.target, " was lost: ", why.message()))};
  if (!loss.drained) queue_.OnWorkerLost(worker->info);
  const bool left = loss.drained && reason == LossReason::kDisconnected;
  memberships_.CountLoss(worker->info.role, left ? LossReason::kDrained : reason);
  registry_.Leave(id);
  // First, so that no job cancels a call that is over.
  ledger_.OnWorkerLost(id);
  std::vector<DispatchJob*> jobs;
  for (const auto& [key, job] : jobs_) {
    const bool has_it = job->pair.prefill == id || job->pair.decode == id;
    if (job->state != JobState::kQueued && has_it) jobs.push_back(job.get());
  }
  for (DispatchJob* job : jobs) OnLossOf(*job, loss);
  queue_.OnWorkersChanged();
}

void Dispatcher::Impl::OnLossOf(DispatchJob& job, const WorkerLoss& loss) {
  if (job.state == JobState::kFinishing) return EndIfReported(job);
  if (job.pair.decode != loss.worker && job.kind == AttemptKind::kPair) {
    // A worker that drains leaves when its readers have all that they need, which D may not have reported yet.
    if (job.committed || (loss.drained && job.has_token())) return;
  }
  // What the worker said of the job before it left is the reason, and not that it left.
  const bool said_why = job.echo && job.echo_from == loss.worker;
  // A worker that had not begun with the job cannot have died of it.
  const bool decoding = job.committed && job.pair.decode == loss.worker;
  const bool prefilling = job.prompt_started && !job.has_token() && job.prompt_worker() == loss.worker;
  if (decoding || prefilling) ++job.losses;
  OnLoss(job, said_why ? *job.echo : loss.what);
}

void Dispatcher::Impl::OnError(DispatchJob& job, const absl::Status& status) {
  if (!MayPass(status) || ++job.errors >= options_.max_errors) return End(job, status);
  FailOver(job, status);
}

void Dispatcher::Impl::OnLoss(DispatchJob& job, const absl::Status& status) {
  if (!MayPass(status) || job.losses >= options_.max_losses) return End(job, status);
  FailOver(job, status);
}

void Dispatcher::Impl::FailOver(DispatchJob& job, const absl::Status& why) {
  // The digest of the prompt alone comes with the first output, and nobody can take it later.
  if (job.spec->want_kv_digest && job.result.kv_digest.empty() && job.next_index() > 0) return End(job, why);
  job.NoteGivenUp(clock_.Now(), why.message());
  ++job.result.failovers;
  job.failed_at = clock_.Now();
  job.failure = why;
  // Its first token is out: it goes before all that wait for theirs.
  if (job.next_index() > 0) job.line_rank = LineRank::kOverdue;
  CancelCalls(job);
  if (job.has_token()) {
    auto spec = std::make_shared<JobSpec>(*job.spec);
    spec->prompt.insert(spec->prompt.end(), job.outputs.begin() + spec->emitted, job.outputs.end());
    spec->emitted = job.next_index();
    spec->want_kv_digest = false;
    job.spec = std::move(spec);
  }
  Requeue(job);
}

void Dispatcher::Impl::Finish(DispatchJob& job, FinishReason finish) {
  job.result.finish = finish;
  if (job.state != JobState::kStreaming) return End(job, absl::OkStatus());
  job.state = JobState::kFinishing;
  if (job.last_token_from != Side::kDecode) CancelCall(Side::kDecode, job.key());
  SetTimer(job, std::min(job.spec->deadline, After(clock_.Now(), options_.report_wait_ms)));
  EndIfReported(job);
}

void Dispatcher::Impl::EndIfReported(DispatchJob& job) {
  const bool reported = !job.last_token_from || !IsLive(*job.last_token_from, job.key());
  if (reported && !AwaitsDigest(job)) End(job, absl::OkStatus());
}

// P reports the digest right behind its token, which may travel slower than D's tokens.
bool Dispatcher::Impl::AwaitsDigest(const DispatchJob& job) {
  return job.spec->want_kv_digest && job.result.kv_digest.empty() && IsLive(Side::kPrefill, job.key());
}

void Dispatcher::Impl::End(DispatchJob& job, const absl::Status& status) {
  CancelCalls(job);
  JobResult result = std::move(job.result);
  result.status = status;
  result.prompt_tokens = static_cast<int32_t>(job.spec->client_prompt_tokens());
  result.output_tokens = job.next_index();
  result.attempts = static_cast<int32_t>(job.attempt);
  result.refusals = job.refusals;
  result.phases = ComputePhases(job.marks, clock_.Now());
  actions_.push_back(EndJob{.key = job.spec->key(), .result = std::move(result)});
  SetTimer(job, kNever);
  queue_.OnEnd(job);
  jobs_.erase(job.spec->key());
}

void Dispatcher::Impl::CancelCalls(const DispatchJob& job) {
  CancelCall(Side::kPrefill, job.key());
  CancelCall(Side::kDecode, job.key());
}

void Dispatcher::Impl::CancelCall(Side side, const JobKey& key) {
  Call* call = ledger_.Find({side, key});
  if (call == nullptr || !call->live()) return;
  call->cancelled = true;
  actions_.push_back(CancelAttempt{.side = side, .worker = call->worker, .key = key});
}

bool Dispatcher::Impl::IsLive(Side side, const JobKey& key) {
  const Call* call = ledger_.Find({side, key});
  return call != nullptr && call->live();
}

// CANCELLED is what a client gets for its own cancellation, so a worker's CANCELLED becomes UNAVAILABLE.
absl::Status Dispatcher::Impl::Describe(Side side, const WorkerId& worker, const absl::Status& status) const {
  const Worker* known = registry_.Find(worker);
  const absl::StatusCode code = absl::IsCancelled(status) ? absl::StatusCode::kUnavailable : status.code();
  return absl::Status(code,
                      absl::StrCat(side == Side::kPrefill ? "prefill" : "decode", " worker ",
                                   known == nullptr ? "that has left" : known->info.target, ": ", status.message()));
}

Dispatcher::Dispatcher(const DispatcherOptions& options, const Clock& clock, RandomSource& random)
    : impl_(std::make_unique<Impl>(options, clock, random)) {}
Dispatcher::~Dispatcher() = default;

absl::Status Dispatcher::Submit(std::shared_ptr<const JobSpec> job) { return impl_->Submit(std::move(job)); }
void Dispatcher::Cancel(const ChoiceKey& key, const absl::Status& why) { impl_->Cancel(key, why); }
void Dispatcher::OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update) {
  impl_->OnWorkerUpdate(side, key, update);
}
void Dispatcher::OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status) {
  impl_->OnWorkerEnd(side, key, status);
}
absl::Status Dispatcher::OnWorkerJoin(const WorkerInfo& info) { return impl_->OnWorkerJoin(info); }
bool Dispatcher::OnWorkerRefused(RefusedWorker refused) { return impl_->OnWorkerRefused(std::move(refused)); }
void Dispatcher::OnWorkerLoad(const WorkerId& id, const WorkerLoad& load) { impl_->OnWorkerLoad(id, load); }
void Dispatcher::OnWorkerLost(const WorkerId& id, const absl::Status& why) { impl_->OnWorkerLost(id, why); }
void Dispatcher::OnTimer() { impl_->OnTimer(); }
TimeNs Dispatcher::NextTimer() const { return impl_->NextTimer(); }
std::vector<DispatchAction> Dispatcher::TakeActions() { return impl_->TakeActions(); }
const WorkerRegistry& Dispatcher::registry() const { return impl_->registry(); }
const MembershipCounts& Dispatcher::memberships() const { return impl_->memberships(); }
int32_t Dispatcher::queued_jobs() const { return impl_->queued_jobs(); }
int32_t Dispatcher::running_jobs() const { return impl_->running_jobs(); }
int32_t Dispatcher::open_calls() const { return impl_->open_calls(); }
const std::map<WorkerId, WorkerAssignment>& Dispatcher::assigned() const { return impl_->assigned(); }

}  // namespace baton::router
