// Workers are ordered to drain, and running jobs move from a decode worker that drains to another one.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "router/dispatcher_impl.h"
#include "router/worker_names.h"

namespace baton::router {

absl::StatusOr<WorkerId> Dispatcher::Impl::OrderDrain(std::string_view name) {
  BATON_ASSIGN_OR_RETURN(const Worker* worker, FindNamedWorker(registry_, name));
  const WorkerInfo& info = worker->info;
  if (!info.takes_drain_orders) {
    return absl::FailedPreconditionError(absl::StrCat(
        WorkerName(info), " is of a version that takes no order to drain: send its process SIGTERM instead"));
  }
  if (worker->load.state == WorkerState::kDraining || !drain_orders_.Begin(info.incarnation)) {
    return absl::FailedPreconditionError(absl::StrCat(WorkerName(info), " drains already"));
  }
  actions_.push_back(DrainWorker{.worker = info.id});
  return info.id;
}

void Dispatcher::Impl::NoteDrains() {
  drains_ = false;
  for (const auto& [id, worker] : registry_.workers()) {
    drains_ |= worker.load.state == WorkerState::kDraining && worker.can_decode() && worker.info.hands_over;
  }
}

void Dispatcher::Impl::StartMoves() {
  needs_moving_ = false;
  for (const auto& [key, job] : jobs_) {
    if (static_cast<int32_t>(moving_.size()) >= options_.max_moves) return;
    if (!MayMove(*job)) continue;
    job->move = JobMove::kAsked;
    job->hand_over = {.next = job->key(), .secret = random_.NextId(), .reader = {}};
    job->hand_over.next.attempt = ++job->last_attempt;
    moving_.insert(key);
    actions_.push_back(HandOverAttempt{.worker = job->pair.decode, .key = job->key(), .hand_over = job->hand_over});
  }
}

bool Dispatcher::Impl::MayMove(const DispatchJob& job) {
  if (job.state != JobState::kStreaming || !job.committed || job.move != JobMove::kNone || job.echo) return false;
  if (job.origins.size() >= kMaxKvOrigins) return false;
  const Worker* worker = registry_.Find(job.pair.decode);
  if (worker == nullptr || worker->load.state != WorkerState::kDraining || !worker->info.hands_over) return false;
  // P's report may still be on its way.
  if (!IsLive(Side::kDecode, job.key()) || IsLive(Side::kPrefill, job.key())) return false;
  // The digest of a prompt that D computed comes with kFrozen.
  const bool digest_may_miss = job.lacks_digest();
  if (digest_may_miss && job.kind != AttemptKind::kLocal) return false;
  return !MoveTarget(job).is_zero();
}

WorkerId Dispatcher::Impl::MoveTarget(const DispatchJob& job) const {
  return PlaceMove(registry_, ledger_.assigned(),
                   {.prompt_tokens = job.spec->client_prompt_tokens() + job.next_index(),
                    .kind = AttemptKind::kPair,
                    .fingerprint = job.fingerprint,
                    .features = FeaturesOf(job.spec->sampling)});
}

void Dispatcher::Impl::OnFrozen(DispatchJob& job, Side side, Call& call, const WorkerUpdate& update) {
  const bool was_asked = side == Side::kDecode && job.state == JobState::kStreaming && job.move == JobMove::kAsked;
  if (!was_asked || update.token.index != job.next_index() - 1 || update.token.token != job.outputs.back()) {
    return End(job, absl::InternalError(absl::StrCat("a worker froze behind output token ", update.token.index,
                                                     " where ", job.next_index(), " was due")));
  }
  const WorkerId target = MoveTarget(job);
  if (target.is_zero()) {
    actions_.push_back(HandOverAttempt{.worker = call.worker, .key = job.key(), .hand_over = {}});
    // The next change of some worker's load lets it be asked again.
    EndMove(job);
    needs_moving_ = false;
    return;
  }
  call.frozen = true;
  job.first = update.token;
  StartMovedAttempt(job, call.worker, target);
}

void Dispatcher::Impl::StartMovedAttempt(DispatchJob& job, const WorkerId& source, const WorkerId& target) {
  auto spec = std::make_shared<JobSpec>(*job.spec);
  spec->prompt.insert(spec->prompt.end(), job.outputs.begin() + spec->emitted, job.outputs.end() - 1);
  spec->emitted = job.next_index() - 1;
  spec->want_kv_digest = false;
  job.spec = std::move(spec);
  job.move = JobMove::kPulling;
  job.source = job.key();
  job.kind = AttemptKind::kPair;
  job.pair = {.prefill = source, .decode = target};
  job.committed = false;
  job.attempt_placed = clock_.Now();
  job.attempt = job.hand_over.next.attempt;
  job.timed_output = -1;
  ++job.result.attempts;
  const Worker& reads = *registry_.Find(target);
  const Worker& serves = *registry_.Find(source);
  job.result.decode_worker = reads.info.target;
  ledger_.Open({Side::kDecode, job.key()},
               {.worker = target, .blocks = reads.info.PromptBlocks(job.spec->prompt_tokens())});
  actions_.push_back(StartDecode{.worker = target,
                                 .incarnation = reads.info.incarnation,
                                 .target = reads.info.target,
                                 .key = job.key(),
                                 .secret = job.hand_over.secret,
                                 .job = job.spec,
                                 .local_prefill = false,
                                 .prefill_incarnation = serves.info.incarnation,
                                 .prefill_target = serves.info.target,
                                 .source = source,
                                 .earlier = job.origins});
  job.origins.push_back({.incarnation = serves.info.incarnation, .target = serves.info.target});
}

void Dispatcher::Impl::EndMove(DispatchJob& job) {
  if (std::exchange(job.move, JobMove::kNone) == JobMove::kNone) return;
  moving_.erase(job.spec->key());
  needs_moving_ = drains_;
}

}  // namespace baton::router
