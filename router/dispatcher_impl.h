// The dispatcher's inside: dispatcher_admission.cc says which jobs are taken, dispatcher_queue.cc begins attempts and
// watches time, dispatcher.cc follows a placed job, dispatcher_prompts.cc keeps what comes before its outputs,
// dispatcher_moves.cc moves it from a worker that drains, dispatcher_pauses.cc lets it wait for its client.
#ifndef BATON_ROUTER_DISPATCHER_IMPL_H_
#define BATON_ROUTER_DISPATCHER_IMPL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "router/admission.h"
#include "router/call_ledger.h"
#include "router/canaries.h"
#include "router/cluster_health.h"
#include "router/dispatch_job.h"
#include "router/dispatcher.h"
#include "router/poisoned_requests.h"
#include "router/retry_plan.h"

namespace baton::router {

class Dispatcher::Impl {
 public:
  Impl(const DispatcherOptions& options, const Clock& clock, RandomSource& random);

  absl::Status Submit(std::shared_ptr<const JobSpec> spec);
  void Cancel(const ChoiceKey& key, const absl::Status& why);
  void CancelJob(const JobId& id, const absl::Status& why);
  void Pause(const ChoiceKey& key);
  void Continue(const ChoiceKey& key);
  void OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update);
  void OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status);
  absl::Status OnWorkerJoin(const WorkerInfo& info);
  bool OnWorkerRefused(RefusedWorker refused);
  void OnWorkersAnnounced(const std::vector<WorkerInfo>& announced);
  void OnWorkerLoad(const WorkerId& id, const WorkerLoad& load);
  LedgerNews OnWorkerBlocks(const WorkerId& id, const BlockReport& report);
  void OnWorkerLost(const WorkerId& id, const absl::Status& why);
  void OnWorkerFault(const WorkerId& id, const WorkerFault& fault);
  absl::StatusOr<WorkerId> OrderDrain(std::string_view name);
  void OnTimer();
  TimeNs NextTimer() const;
  std::vector<DispatchAction> TakeActions() {
    if (actions_.empty()) return {};
    std::vector<DispatchAction> taken = std::exchange(actions_, {});
    // The next step of a worker has about as many.
    actions_.reserve(taken.size());
    return taken;
  }

  const WorkerRegistry& registry() const { return registry_; }
  const MembershipCounts& memberships() const { return memberships_; }
  const BlockLedger& block_ledger() const { return blocks_; }
  const DrainOrders& drain_orders() const { return drain_orders_; }
  std::string FingerprintOf(const ChoiceKey& key) const {
    const auto it = jobs_.find(key);
    return it == jobs_.end() || it->second->outputs.empty() ? std::string() : it->second->fingerprint;
  }
  int32_t queued_jobs() const { return static_cast<int32_t>(queue_.size() + following_.size()); }
  int32_t running_jobs() const { return static_cast<int32_t>(jobs_.size()) - queued_jobs() - paused_jobs(); }
  int32_t paused_jobs() const { return static_cast<int32_t>(paused_.size()); }
  const std::set<ChoiceKey>& paused() const { return paused_; }
  int32_t open_calls() const { return static_cast<int32_t>(ledger_.size()); }
  const std::map<WorkerId, WorkerAssignment>& assigned() const { return ledger_.assigned(); }
  const ClusterHealth& health() const { return health_; }
  const CanaryCounts& canary_counts() const { return canaries_.counts(); }
  std::vector<std::string> TakeHealthNotes() { return health_.TakeNotes(); }

 private:
  // dispatcher.cc: a placed job.
  DispatchJob* FindJob(const JobKey& key);
  void OnStarted(DispatchJob& job, Side side, Call& call, int32_t cached_tokens);
  void OnToken(DispatchJob& job, Side side, const OutputToken& token);
  // D has the prompt's KV.
  void OnCommitted(DispatchJob& job);
  // The choices that follow this one may begin.
  void ReleaseFollowers(const DispatchJob& job);
  // D has given output `index`, and not only P's first one again.
  void TimeOutputs(DispatchJob& job, int32_t index);
  // The current attempt gives its first output.
  void OnFirstToken(DispatchJob& job, Side side, const OutputToken& token);
  // The next output is of the attempt's worker on this side.
  void NoteFingerprint(DispatchJob& job, Side side);
  void OnFinishedUpdate(DispatchJob& job, Side side, const WorkerUpdate& update);
  void OnCallEnd(DispatchJob& job, Side side, const Call& call, const absl::Status& status);
  void OnRefusal(DispatchJob& job, const Call& call, const absl::Status& status);
  // An attempt has failed with an error of a worker, or with its loss: the job goes on elsewhere, or ends.
  void OnError(DispatchJob& job, const absl::Status& status);
  void OnLoss(DispatchJob& job, const absl::Status& status);
  void FailOver(DispatchJob& job, const absl::Status& why);
  // The current attempt is given up, and its outputs go with the prompt of the next one.
  void GiveUpAttempt(DispatchJob& job, absl::string_view why);
  // These two place no job: that is for the caller, once all is told. The id is a copy, because the registry's dies.
  void Lose(WorkerId id, const absl::Status& why, LossReason reason, const WorkerFault* fault = nullptr);
  // Loses the worker by the dispatcher's own judgement.
  void GiveUp(WorkerId id, const absl::Status& why, LossReason reason);
  // The worker has left registry and ledger.
  struct WorkerLoss {
    WorkerId worker;
    // It drained, and closed its stream.
    bool left = false;
    absl::Status what;
    // Null: nobody knows what it died of.
    const WorkerFault* fault = nullptr;
  };
  void OnLossOf(DispatchJob& job, const WorkerLoss& loss);
  // The worker's step that failed had jobs, this one perhaps.
  void OnFaultOf(DispatchJob& job, const WorkerLoss& loss);
  // The output is complete: from here on the job ends well, whatever becomes of its workers.
  void Finish(DispatchJob& job, FinishReason finish);
  // Ends a job in kFinishing unless a worker still owes it something.
  void EndIfReported(DispatchJob& job);
  bool AwaitsDigest(const DispatchJob& job);
  // Forgets the job: it must not be used afterwards.
  void End(DispatchJob& job, const absl::Status& status);
  void CancelCall(Side side, const JobKey& key);
  void CancelCalls(const DispatchJob& job);
  bool IsLive(Side side, const JobKey& key);
  absl::Status Describe(Side side, const WorkerId& worker, const absl::Status& status) const;

  // dispatcher_prompts.cc: log-probabilities of prompts.
  // Not all of them have come, so no output is emitted.
  static bool AwaitsPrompt(const DispatchJob& job);
  void OnPrompt(DispatchJob& job, Side side, const WorkerUpdate& update);
  // Keeps an output of D for later.
  void HoldBack(DispatchJob& job, Side side, const OutputToken& token);
  void TakeHeldBack(const JobKey& key);
  static std::shared_ptr<const std::vector<PromptLogprob>> TakePrompt(DispatchJob& job, const OutputToken& token);

  // dispatcher_admission.cc: which jobs are taken.
  absl::Status CheckNew(const JobSpec& spec);
  // Jobs of the tenant that are queued.
  int32_t QueuedOf(const std::string& tenant) const;
  absl::Status CheckDeadline(const JobSpec& spec);
  absl::Status CheckTokens(const JobSpec& spec) const;
  // The job is taken, or has ended.
  void TakeTokens(DispatchJob& job);
  void SettleTokens(const DispatchJob& job);
  // RESOURCE_EXHAUSTED for want of a place in the queue.
  absl::Status QueueFull(const std::string& what);
  // The last moment at which a waiting job may be placed.
  TimeNs LastStart(const DispatchJob& job) const;
  // Ends a job that can no longer have its first token in time.
  void Drop(DispatchJob& job);
  int64_t PromiseRetry(const RetryPlan::Refused& refused);
  // dispatcher_moves.cc: running jobs leave a worker that drains.
  void StartMoves();
  bool MayMove(const DispatchJob& job);
  WorkerId MoveTarget(const DispatchJob& job) const;
  void OnFrozen(DispatchJob& job, Side side, Call& call, const WorkerUpdate& update);
  void StartMovedAttempt(DispatchJob& job, const WorkerId& source, const WorkerId& target);
  // The job is not moving any more, whatever became of it.
  void EndMove(DispatchJob& job);
  void NoteDrains();

  // dispatcher_pauses.cc: jobs wait for their clients.
  bool MayPause(const DispatchJob& job) const;

  // dispatcher_queue.cc: attempts begin, time passes.
  void PlaceQueued();
  void StartAttempt(DispatchJob& job);
  void Requeue(DispatchJob& job);
  // It has no worker any more.
  void LeaveWorkers(DispatchJob& job);
  absl::Status Impossible(const JobSpec& spec) const;
  static absl::Status NobodyGoesOn(const DispatchJob& job);
  absl::Status NobodyServes(const DispatchJob& job) const;
  void OnJobTimer(DispatchJob& job);
  void SetTimer(DispatchJob& job, TimeNs at);
  void WatchWorkers(TimeNs now);
  void EndUnservedJobs();
  bool HasCallRoom() const;

  const DispatcherOptions options_;
  const Clock& clock_;
  RandomSource& random_;
  WorkerRegistry registry_;
  MembershipCounts memberships_;
  DrainOrders drain_orders_;
  CallLedger ledger_;
  BlockLedger blocks_;
  ClusterHealth health_;
  std::map<ChoiceKey, std::unique_ptr<DispatchJob>> jobs_;
  // Jobs in state kQueued.
  PlacingQueue queue_;
  // Jobs in states kFollowing and kPaused.
  std::set<ChoiceKey> following_;
  std::set<ChoiceKey> paused_;
  PoisonedRequests poisoned_;
  Admission admission_;
  RetryPlan retries_;
  TenantBuckets buckets_;
  // Jobs whose move is not kNone.
  std::set<ChoiceKey> moving_;
  // Some member drains that hands over.
  bool drains_ = false;
  // Something has changed that could let a job move.
  bool needs_moving_ = false;
  uint64_t next_place_ = 0;
  std::set<std::pair<TimeNs, ChoiceKey>> timers_;
  // When to look for silent workers next; kNever without workers. Also the clock of the dispatcher's own pauses.
  TimeNs next_watch_ = kNever;
  // The end of the dispatcher's last pause.
  TimeNs woke_at_ = 0;
  std::vector<DispatchAction> actions_;
  Canaries canaries_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DISPATCHER_IMPL_H_
