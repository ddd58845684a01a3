// The dispatcher's inside: dispatcher.cc follows a placed job, dispatcher_queue.cc the line, placing and time.
#ifndef BATON_ROUTER_DISPATCHER_IMPL_H_
#define BATON_ROUTER_DISPATCHER_IMPL_H_

#include <array>
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
#include "router/waiting_line.h"

namespace baton::router {

class Dispatcher::Impl {
 public:
  Impl(const DispatcherOptions& options, const Clock& clock);

  absl::Status Submit(std::shared_ptr<const JobSpec> spec);
  void Cancel(const ChoiceKey& key, const absl::Status& why);
  void OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update);
  void OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status);
  absl::Status OnWorkerJoin(const WorkerInfo& info);
  void OnWorkerLoad(const WorkerId& id, const WorkerLoad& load);
  void OnWorkerLost(const WorkerId& id, const absl::Status& why);
  void OnTimer();
  TimeNs NextTimer() const;
  std::vector<DispatchAction> TakeActions() { return std::exchange(actions_, {}); }

  const WorkerRegistry& registry() const { return registry_; }
  int32_t queued_jobs() const { return static_cast<int32_t>(line_.size()); }
  int32_t running_jobs() const { return static_cast<int32_t>(jobs_.size() - line_.size()); }
  int32_t open_calls() const { return static_cast<int32_t>(ledger_.size()); }
  const std::map<WorkerId, WorkerAssignment>& assigned() const { return ledger_.assigned(); }

 private:
  // Kinds of attempts, which need different workers.
  static constexpr size_t kKinds = 3;

  // dispatcher.cc: a placed job.
  DispatchJob* FindJob(const JobKey& key);
  void OnToken(DispatchJob& job, Side side, const OutputToken& token);
  void OnFinishedUpdate(DispatchJob& job, Side side, const WorkerUpdate& update);
  void OnCallEnd(DispatchJob& job, Side side, const Call& call, const absl::Status& status);
  void OnRefusal(DispatchJob& job, const Call& call, const absl::Status& status);
  void OnLossOf(DispatchJob& job, const WorkerId& worker, const absl::Status& what);
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

  // dispatcher_queue.cc: the line, placing, time.
  void PlaceQueued();
  void RankQueued(TimeNs now);
  // Prompt tokens that the worker has yet to compute.
  int64_t Uncomputed(const WorkerId& worker) const;
  PlacementResult PlaceNow(DispatchJob& job);
  void StartAttempt(DispatchJob& job, const Pair& pair);
  void Requeue(DispatchJob& job);
  AttemptKind KindOf(const JobSpec& spec) const;
  std::vector<WorkerId> Avoided(DispatchJob& job);
  absl::Status Impossible(const JobSpec& spec) const;
  // Room may have come at the worker.
  void OnRoom(const WorkerId& worker);
  void OnWorkersChanged();
  void OnJobTimer(DispatchJob& job);
  void SetTimer(DispatchJob& job, TimeNs at);
  void EndSilentWorkers();
  void EndUnservedJobs();
  // When a job stops waiting for workers; kNever while there are some for it.
  TimeNs GiveUpTime(const DispatchJob& job) const;
  bool HasCallRoom() const;

  const DispatcherOptions options_;
  const Clock& clock_;
  WorkerRegistry registry_;
  CallLedger ledger_;
  std::map<ChoiceKey, std::unique_ptr<DispatchJob>> jobs_;
  // Jobs in state kQueued.
  WaitingLine line_;
  uint64_t next_place_ = 0;
  std::set<std::pair<TimeNs, ChoiceKey>> timers_;
  // Counts, per registered worker, how often room may have come.
  std::map<WorkerId, uint64_t> load_epochs_;
  // Something has changed since placing was last tried that could let a waiting job be placed.
  bool needs_placing_ = false;
  // When a refused worker may be asked again, the earliest one.
  TimeNs next_retry_ = kNever;
  // Since when no workers for this AttemptKind are there; kNever: there are.
  std::array<TimeNs, kKinds> missing_since_;
  // Not after the first job that must give up waiting for workers.
  TimeNs next_give_up_ = kNever;
  // Not after the first worker that falls silent.
  TimeNs next_silence_ = kNever;
  std::vector<DispatchAction> actions_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DISPATCHER_IMPL_H_
