// The dispatcher's inside: dispatcher.cc follows a placed job, dispatcher_queue.cc begins attempts and watches time.
#ifndef BATON_ROUTER_DISPATCHER_IMPL_H_
#define BATON_ROUTER_DISPATCHER_IMPL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "router/call_ledger.h"
#include "router/dispatch_job.h"
#include "router/dispatcher.h"

namespace baton::router {

class Dispatcher::Impl {
 public:
  Impl(const DispatcherOptions& options, const Clock& clock, RandomSource& random);

  absl::Status Submit(std::shared_ptr<const JobSpec> spec);
  void Cancel(const ChoiceKey& key, const absl::Status& why);
  void OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update);
  void OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status);
  absl::Status OnWorkerJoin(const WorkerInfo& info);
  bool OnWorkerRefused(RefusedWorker refused);
  void OnWorkerLoad(const WorkerId& id, const WorkerLoad& load);
  void OnWorkerLost(const WorkerId& id, const absl::Status& why);
  void OnTimer();
  TimeNs NextTimer() const;
  std::vector<DispatchAction> TakeActions() { return std::exchange(actions_, {}); }

  const WorkerRegistry& registry() const { return registry_; }
  const MembershipCounts& memberships() const { return memberships_; }
  int32_t queued_jobs() const { return static_cast<int32_t>(queue_.size()); }
  int32_t running_jobs() const { return static_cast<int32_t>(jobs_.size() - queue_.size()); }
  int32_t open_calls() const { return static_cast<int32_t>(ledger_.size()); }
  const std::map<WorkerId, WorkerAssignment>& assigned() const { return ledger_.assigned(); }

 private:
  // dispatcher.cc: a placed job.
  DispatchJob* FindJob(const JobKey& key);
  void OnToken(DispatchJob& job, Side side, const OutputToken& token);
  // The current attempt gives its first output.
  void OnFirstToken(DispatchJob& job, Side side, const OutputToken& token);
  void OnFinishedUpdate(DispatchJob& job, Side side, const WorkerUpdate& update);
  void OnCallEnd(DispatchJob& job, Side side, const Call& call, const absl::Status& status);
  void OnRefusal(DispatchJob& job, const Call& call, const absl::Status& status);
  // An attempt has failed with an error of a worker, or with its loss: the job goes on elsewhere, or ends.
  void OnError(DispatchJob& job, const absl::Status& status);
  void OnLoss(DispatchJob& job, const absl::Status& status);
  void FailOver(DispatchJob& job, const absl::Status& why);
  // These two place no job: that is for the caller, once all is told. The id is a copy, because the registry's dies.
  void Lose(WorkerId id, const absl::Status& why, LossReason reason);
  // Loses the worker by the dispatcher's own judgement.
  void GiveUp(WorkerId id, const absl::Status& why, LossReason reason);
  // The worker has left registry and ledger.
  struct WorkerLoss {
    WorkerId worker;
    bool drained = false;
    absl::Status what;
  };
  void OnLossOf(DispatchJob& job, const WorkerLoss& loss);
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

  // dispatcher_queue.cc: attempts begin, time passes.
  void PlaceQueued();
  void StartAttempt(DispatchJob& job);
  void Requeue(DispatchJob& job);
  absl::Status Impossible(const JobSpec& spec) const;
  static absl::Status NobodyGoesOn(const DispatchJob& job);
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
  CallLedger ledger_;
  std::map<ChoiceKey, std::unique_ptr<DispatchJob>> jobs_;
  // Jobs in state kQueued.
  PlacingQueue queue_;
  uint64_t next_place_ = 0;
  std::set<std::pair<TimeNs, ChoiceKey>> timers_;
  // When to look for silent workers next; kNever without workers. Also the clock of the dispatcher's own pauses.
  TimeNs next_watch_ = kNever;
  // The end of the dispatcher's last pause.
  TimeNs woke_at_ = 0;
  std::vector<DispatchAction> actions_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DISPATCHER_IMPL_H_
