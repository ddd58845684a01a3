#include "router/dispatcher.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/own_fault.h"
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

// A job that may have killed a worker shows in its first step at each worker of a pair whether it does so again. One
// that was in two such steps is left no company to hide in.
int32_t AloneOutputs(const DispatchJob& job) {
  constexpr int32_t kFirstOfPair = 2;
  return job.faults == 0 ? 0 : job.faults == 1 ? kFirstOfPair : job.spec->sampling.max_tokens;
}

absl::Status TokenError(const OutputToken& token, int32_t expected) {
  return absl::InternalError(absl::StrCat("output token ", token.index, " came where ", expected, " was due"));
}

}  // namespace

DispatchJob* Dispatcher::Impl::FindJob(const JobKey& key) {
  const auto it = jobs_.find(key.choice_key());
  if (it == jobs_.end()) return nullptr;
  DispatchJob* job = it->second.get();
  const bool has_workers = job->state != JobState::kQueued && job->state != JobState::kPaused;
  return job->attempt == key.attempt && has_workers ? job : nullptr;
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

void Dispatcher::Impl::CancelJob(const JobId& id, const absl::Status& why) {
  std::vector<ChoiceKey> choices;
  for (auto it = jobs_.lower_bound({.job = id}); it != jobs_.end() && it->first.job == id; ++it) {
    choices.push_back(it->first);
  }
  for (const ChoiceKey& choice : choices) Cancel(choice, why);
}

void Dispatcher::Impl::OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update) {
  Call* call = ledger_.Find({side, key});
  if (call == nullptr || !call->live()) return;
  if (canaries_.OnWorkerUpdate(side, key, *call, update)) {
    queue_.OnRoomChanged();
    return PlaceQueued();
  }
  DispatchJob* job = FindJob(key);
  // A live call has its job: the end of a job leaves its calls cancelled or finished.
  BATON_CHECK(job != nullptr) << key.ToString();
  const bool computes_prompt = side == job->prompt_side();
  if (!update.kv_digest.empty()) job->result.kv_digest = update.kv_digest;
  switch (update.kind) {
    case WorkerUpdate::Kind::kStarted:
      call->started = true;
      OnStarted(*job, side, *call, update.cached_tokens);
      break;
    case WorkerUpdate::Kind::kKvCommitted:
      if (side == Side::kPrefill || job->committed) break;
      OnCommitted(*job);
      EndMove(*job);
      needs_moving_ = drains_;
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
    case WorkerUpdate::Kind::kPrompt:
      OnPrompt(*job, side, update);
      break;
    case WorkerUpdate::Kind::kFrozen:
      OnFrozen(*job, side, *call, update);
      break;
    case WorkerUpdate::Kind::kFinished:
      call->finished = true;
      OnFinishedUpdate(*job, side, update);
      break;
  }
  PlaceQueued();
}

void Dispatcher::Impl::OnStarted(DispatchJob& job, Side side, Call& call, int32_t cached_tokens) {
  if (side == Side::kDecode || job.kind == AttemptKind::kSolo) queue_.OnAdmitted(job);
  if (cached_tokens < 0 || cached_tokens > job.spec->prompt_tokens()) {
    return End(job, absl::InternalError(absl::StrCat("a worker found ", cached_tokens, " tokens of a prompt of ",
                                                     job.spec->prompt_tokens(), " in its cache")));
  }
  if (side != job.prompt_side()) return;
  job.prompt_started = true;
  job.computed_tokens = job.spec->prompt_tokens() - cached_tokens;
  if (!job.marks.admitted) job.marks.admitted = clock_.Now();
  if (job.spec->emitted == 0) {
    job.result.looked_up_tokens = static_cast<int32_t>(job.spec->prompt_tokens());
    job.result.cached_tokens = cached_tokens;
  }
  ledger_.OnComputed(call, cached_tokens);
  queue_.OnRoomChanged();
}

void Dispatcher::Impl::OnCommitted(DispatchJob& job) {
  job.committed = true;
  if (!job.marks.committed) job.marks.committed = clock_.Now();
  if (job.kind == AttemptKind::kPair) health_.OnHandedOver(job.pair, job.attempt_placed);
  if (job.kind == AttemptKind::kPair) canaries_.OnHandedOver(job.pair);
  if (job.has_token()) ReleaseFollowers(job);
}

void Dispatcher::Impl::ReleaseFollowers(const DispatchJob& job) {
  const JobId& id = job.spec->id;
  for (auto it = following_.lower_bound({.job = id}); it != following_.end() && it->job == id;) {
    DispatchJob& follower = *jobs_.at(*it);
    if (follower.spec->follows != job.spec->choice) {
      ++it;
      continue;
    }
    it = following_.erase(it);
    follower.beside = job.pair;
    follower.state = JobState::kQueued;
    queue_.Add(follower);
    SetTimer(follower, LastStart(follower));
  }
}

void Dispatcher::Impl::TimeOutputs(DispatchJob& job, int32_t index) {
  const TimeNs now = clock_.Now();
  const bool goes_on = index - job.timed_output < kTimedOutputs && now < After(job.timed_at, kTimedOutputsMs);
  if (job.timed_output >= 0 && goes_on) return;
  if (job.timed_output >= 0) {
    health_.OnSample(job.pair.decode, {.phase = WorkSample::Phase::kDecode,
                                       .duration_ns = now - job.timed_at,
                                       .units = index - job.timed_output,
                                       .batch_sequences = AssignmentOf(ledger_.assigned(), job.pair.decode).jobs});
  }
  job.timed_output = index;
  job.timed_at = now;
}

void Dispatcher::Impl::OnToken(DispatchJob& job, Side side, const OutputToken& token) {
  if (job.state == JobState::kFinishing) return;
  if (AwaitsPrompt(job)) return HoldBack(job, side, token);
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
  // A worker that failed now would leave nothing for another one to go on with.
  if (token.index + 1 == job.spec->sampling.max_tokens && !token.is_last()) {
    return End(job, absl::InternalError(absl::StrCat("output token ", token.index, " is not the last of ",
                                                     job.spec->sampling.max_tokens)));
  }
  if (token.embedding.empty() != (job.spec->sampling.pooling == Pooling::kNone)) {
    return End(job, absl::InternalError(absl::StrCat("output token ", token.index, " came with an embedding of ",
                                                     token.embedding.size(), " values")));
  }
  if (token.index == first_index) {
    OnFirstToken(job, side, token);
  } else {
    // The first output of an attempt proves nothing of the worker that decodes it: a request that kills each of these
    // in its first step would otherwise go on for ever.
    job.losses = 0;
    job.errors = 0;
    TimeOutputs(job, token.index);
  }
  job.outputs.push_back(token.token);
  if (token.index == first_index && job.committed) ReleaseFollowers(job);
  EmitToken emit{.key = job.spec->key(), .token = token, .prompt = TakePrompt(job, token)};
  emit.token.other_numerics = job.result.other_numerics_from.has_value();
  actions_.push_back(std::move(emit));
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
    admission_.OnFirstToken(job.spec->prompt_tokens(), now - job.attempt_placed);
  }
  NoteFingerprint(job, side);
  // Attempts of one worker transfer nothing, and a token of D means that D has the KV.
  if (job.kind != AttemptKind::kPair || side == Side::kDecode) OnCommitted(job);
}

void Dispatcher::Impl::NoteFingerprint(DispatchJob& job, Side side) {
  const Worker* worker = registry_.Find(side == Side::kPrefill ? job.pair.prefill : job.pair.decode);
  if (worker == nullptr || worker->info.fingerprint == job.fingerprint) return;
  // What comes later follows from this output, and keeps its label also where the first fingerprint goes on.
  if (!job.outputs.empty() && !job.result.other_numerics_from) job.result.other_numerics_from = job.next_index();
  job.fingerprint = worker->info.fingerprint;
}

void Dispatcher::Impl::OnFinishedUpdate(DispatchJob& job, Side side, const WorkerUpdate& update) {
  (side == Side::kPrefill ? job.result.prefill : job.result.decode) = update.report;
  job.marks.NoteComputed(side == job.prompt_side(), update.report.compute_ns, clock_.Now());
  if (side == Side::kPrefill) {
    health_.OnSample(
        job.pair.prefill,
        {.phase = WorkSample::Phase::kPrefill, .duration_ns = update.report.compute_ns, .units = job.computed_tokens});
  }
  if (job.state == JobState::kFinishing) return EndIfReported(job);
  // D is done before P's word of the prompt has come.
  if (AwaitsPrompt(job) && !job.held_back.empty() && job.held_back.back().is_last()) return;
  const Worker* worker = registry_.Find(side == Side::kPrefill ? job.pair.prefill : job.pair.decode);
  const std::string who = worker == nullptr ? "a lost worker" : worker->info.target;
  if (!job.has_token()) return End(job, absl::InternalError(absl::StrCat(who, " finished without a token")));
  if (side == Side::kDecode) return End(job, absl::InternalError(absl::StrCat(who, " finished without a last token")));
  if (job.echo) OnError(job, *job.echo);
}

void Dispatcher::Impl::OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status) {
  const std::optional<Call> call = ledger_.Close({side, key}, status);
  if (!call) return;
  needs_moving_ = drains_;
  canaries_.OnWorkerEnd(side, key, *call, status);
  DispatchJob* job = call->cancelled || call->frozen ? nullptr : FindJob(key);
  const bool no_room = call->IsRefusal(status);
  no_room ? queue_.OnRoomChanged() : queue_.OnRoomChanged(call->worker);
  if (job != nullptr && no_room && job->state == JobState::kPlaced) {
    OnRefusal(*job, *call, status);
  } else if (job != nullptr && no_room && job->move == JobMove::kPulling) {
    queue_.OnRefusal(*job, call->worker);
    FailOver(*job, Describe(side, call->worker, status));
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
    return End(job, QueueFull(absl::StrCat("no worker had room in ", job.refusals,
                                           " attempts, the last one: ", status.message())));
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

LedgerNews Dispatcher::Impl::OnWorkerBlocks(const WorkerId& id, const BlockReport& report) {
  const Worker* worker = registry_.Find(id);
  if (worker == nullptr) return {};
  return blocks_.OnReport(id, worker->info.total_blocks, report, [this](const JobKey& key) -> AttemptCalls {
    return {.prefill = ledger_.WorkerOf({Side::kPrefill, key}), .decode = ledger_.WorkerOf({Side::kDecode, key})};
  });
}

void Dispatcher::Impl::OnWorkerFault(const WorkerId& id, const WorkerFault& fault) {
  Lose(id, absl::UnavailableError(absl::StrCat("its process died of ", SignalName(fault.signal))), LossReason::kFault,
       &fault);
  PlaceQueued();
}

void Dispatcher::Impl::GiveUp(WorkerId id, const absl::Status& why, LossReason reason) {
  actions_.push_back(EndMembership{.worker = id, .why = why});
  Lose(id, why, reason);
}

void Dispatcher::Impl::Lose(WorkerId id, const absl::Status& why, LossReason reason, const WorkerFault* fault) {
  const Worker* worker = registry_.Find(id);
  if (worker == nullptr) return;
  const bool drained = worker->load.state == WorkerState::kDraining;
  const WorkerLoss loss = {
      .worker = id,
      .left = drained && reason == LossReason::kDisconnected,
      .what = absl::UnavailableError(absl::StrCat("worker ", worker->info.target, " was lost: ", why.message())),
      .fault = fault};
  if (!drained) queue_.OnWorkerLost(worker->info);
  const bool is_done = loss.left && AssignmentOf(ledger_.assigned(), id).jobs == 0;
  drain_orders_.OnGone(worker->info.incarnation, is_done, std::string(why.message()));
  memberships_.CountLoss(worker->info.role, loss.left ? LossReason::kDrained : reason);
  registry_.Leave(id);
  blocks_.Forget(id);
  NoteDrains();
  // First, so that no job cancels a call that is over.
  ledger_.OnWorkerLost(id);
  canaries_.OnWorkerLost(id);
  health_.OnWorkerLost(id);
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
    // P has more to say where the prompt's log-probabilities are awaited.
    if ((job.committed && !AwaitsPrompt(job)) || (loss.left && job.has_token())) return;
  }
  if (loss.fault != nullptr && !loss.fault->at_work.empty()) return OnFaultOf(job, loss);
  // What the worker said of the job before it left is the reason, and not that it left.
  const bool said_why = job.echo && job.echo_from == loss.worker;
  // A worker that had not begun with the job cannot have died of it.
  const bool decoding = job.committed && job.pair.decode == loss.worker;
  const bool prefilling = job.prompt_started && !job.has_token() && job.prompt_worker() == loss.worker;
  if (decoding || prefilling) ++job.losses;
  OnLoss(job, said_why ? *job.echo : loss.what);
}

void Dispatcher::Impl::OnFaultOf(DispatchJob& job, const WorkerLoss& loss) {
  const std::vector<JobKey>& at_work = loss.fault->at_work;
  if (std::find(at_work.begin(), at_work.end(), job.key()) != at_work.end()) {
    // The first fault may be chance, even in a step of this job alone.
    if (job.faults > 0 && at_work.size() == 1) {
      poisoned_.Add(*job.spec);
      return End(job,
                 WithReason(absl::InternalError(absl::StrCat(
                                loss.what.message(), " in a step of this request alone, and it was in the step of ",
                                "another worker that died: it is not tried again, and the same request is refused ",
                                "for ", PoisonedRequests::kRefusalMs / 60'000, " minutes")),
                            RefusalReason::kPoisoned));
    }
    ++job.faults;
  }
  FailOver(job, loss.what);
}

void Dispatcher::Impl::OnError(DispatchJob& job, const absl::Status& status) {
  if (job.kind == AttemptKind::kPair && !job.committed && MayPass(status)) {
    health_.OnHandOffFailed(job.pair, job.attempt_placed, std::string(status.message()));
  }
  if (!MayPass(status) || ++job.errors >= options_.max_errors) return End(job, status);
  FailOver(job, status);
}

void Dispatcher::Impl::OnLoss(DispatchJob& job, const absl::Status& status) {
  if (!MayPass(status) || job.losses >= options_.max_losses) return End(job, status);
  FailOver(job, status);
}

void Dispatcher::Impl::FailOver(DispatchJob& job, const absl::Status& why) {
  // The digest of the prompt alone comes with the first output, and nobody can take it later.
  if (job.lacks_digest() && job.next_index() > 0) return End(job, why);
  ++job.result.failovers;
  job.failed_at = clock_.Now();
  job.failure = why;
  // Its first token is out: it goes before all that wait for theirs.
  if (job.next_index() > 0) job.line_rank = LineRank::kOverdue;
  GiveUpAttempt(job, why.message());
  Requeue(job);
}

void Dispatcher::Impl::GiveUpAttempt(DispatchJob& job, absl::string_view why) {
  job.NoteGivenUp(clock_.Now(), why);
  CancelCalls(job);
  EndMove(job);
  auto spec = std::make_shared<JobSpec>(*job.spec);
  if (job.has_token()) {
    spec->prompt.insert(spec->prompt.end(), job.outputs.begin() + spec->emitted, job.outputs.end());
    spec->emitted = job.next_index();
    spec->want_kv_digest = false;
    // They went with output 0.
    spec->sampling.prompt_logprobs = -1;
  }
  spec->alone_outputs = AloneOutputs(job);
  job.spec = std::move(spec);
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
  return job.lacks_digest() && IsLive(Side::kPrefill, job.key());
}

void Dispatcher::Impl::End(DispatchJob& job, const absl::Status& status) {
  CancelCalls(job);
  JobResult result = std::move(job.result);
  result.status = status;
  result.prompt_tokens = static_cast<int32_t>(job.spec->client_prompt_tokens());
  result.output_tokens = job.next_index();
  result.refusals = job.refusals;
  if (!job.outputs.empty()) result.fingerprint = job.fingerprint;
  result.phases = ComputePhases(job.marks, clock_.Now());
  if (status.ok() && result.failovers == 0 && result.pauses == 0) {
    admission_.OnOutputs(job.next_index(), result.phases.transfer_ns + result.phases.decode_ns);
  }
  actions_.push_back(EndJob{.key = job.spec->key(), .result = std::move(result)});
  SetTimer(job, kNever);
  SettleTokens(job);
  EndMove(job);
  queue_.OnEnd(job);
  following_.erase(job.spec->key());
  paused_.erase(job.spec->key());
  ReleaseFollowers(job);
  jobs_.erase(job.spec->key());
}

void Dispatcher::Impl::CancelCalls(const DispatchJob& job) {
  CancelCall(Side::kPrefill, job.key());
  CancelCall(Side::kDecode, job.key());
  if (job.move == JobMove::kPulling) CancelCall(Side::kDecode, job.source);
}

void Dispatcher::Impl::CancelCall(Side side, const JobKey& key) {
  Call* call = ledger_.Find({side, key});
  if (call == nullptr || call->finished || call->cancelled) return;
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
void Dispatcher::CancelJob(const JobId& id, const absl::Status& why) { impl_->CancelJob(id, why); }
void Dispatcher::Pause(const ChoiceKey& key) { impl_->Pause(key); }
void Dispatcher::Continue(const ChoiceKey& key) { impl_->Continue(key); }
void Dispatcher::OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update) {
  impl_->OnWorkerUpdate(side, key, update);
}
void Dispatcher::OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status) {
  impl_->OnWorkerEnd(side, key, status);
}
absl::Status Dispatcher::OnWorkerJoin(const WorkerInfo& info) { return impl_->OnWorkerJoin(info); }
bool Dispatcher::OnWorkerRefused(RefusedWorker refused) { return impl_->OnWorkerRefused(std::move(refused)); }
void Dispatcher::OnWorkersAnnounced(const std::vector<WorkerInfo>& announced) { impl_->OnWorkersAnnounced(announced); }
void Dispatcher::OnWorkerLoad(const WorkerId& id, const WorkerLoad& load) { impl_->OnWorkerLoad(id, load); }
LedgerNews Dispatcher::OnWorkerBlocks(const WorkerId& id, const BlockReport& report) {
  return impl_->OnWorkerBlocks(id, report);
}
void Dispatcher::OnWorkerLost(const WorkerId& id, const absl::Status& why) { impl_->OnWorkerLost(id, why); }
void Dispatcher::OnWorkerFault(const WorkerId& id, const WorkerFault& fault) { impl_->OnWorkerFault(id, fault); }
absl::StatusOr<WorkerId> Dispatcher::OrderDrain(std::string_view name) { return impl_->OrderDrain(name); }
void Dispatcher::OnTimer() { impl_->OnTimer(); }
TimeNs Dispatcher::NextTimer() const { return impl_->NextTimer(); }
std::vector<DispatchAction> Dispatcher::TakeActions() { return impl_->TakeActions(); }
const WorkerRegistry& Dispatcher::registry() const { return impl_->registry(); }
const MembershipCounts& Dispatcher::memberships() const { return impl_->memberships(); }
const BlockLedger& Dispatcher::block_ledger() const { return impl_->block_ledger(); }
const DrainOrders& Dispatcher::drain_orders() const { return impl_->drain_orders(); }
std::string Dispatcher::FingerprintOf(const ChoiceKey& key) const { return impl_->FingerprintOf(key); }
int32_t Dispatcher::queued_jobs() const { return impl_->queued_jobs(); }
int32_t Dispatcher::running_jobs() const { return impl_->running_jobs(); }
int32_t Dispatcher::paused_jobs() const { return impl_->paused_jobs(); }
const std::set<ChoiceKey>& Dispatcher::paused() const { return impl_->paused(); }
int32_t Dispatcher::open_calls() const { return impl_->open_calls(); }
const std::map<WorkerId, WorkerAssignment>& Dispatcher::assigned() const { return impl_->assigned(); }
const ClusterHealth& Dispatcher::health() const { return impl_->health(); }
const CanaryCounts& Dispatcher::canary_counts() const { return impl_->canary_counts(); }
std::vector<std::string> Dispatcher::TakeHealthNotes() { return impl_->TakeHealthNotes(); }

}  // namespace baton::router
