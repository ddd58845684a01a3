// The jobs that wait for workers. The queue decides which job goes next and to which workers, which workers a refused
// job avoids, and how long a job waits for workers that do not exist. It reads registry and ledger; the dispatcher
// acts.
//
//   a waiting job                           | is
//   ----------------------------------------+-------------------------------------------------------------------------
//   fits a pair now                         | started, in the order of waiting_line.h
//   is first and does not fit now           | passed over by jobs that fit
//   was refused by a worker                 | back at its place, which counts as being passed over; not sent to that
//                                           | worker for refusal_backoff_ms, or until room may have come there
//   was passed over max_passed_over times   | hurried: before all that are not, and first in turn for the hold
//   has the hold                            | the only job that is started at the hold's workers, until its worker has
//                                           | admitted it or it has ended
//   has no outputs, and fits no worker at   | refused
//   all, nor one that is expected back      |
//   has no workers for its kind of attempt  | given up after no_worker_wait_ms
//   and no outputs, and none are known      |
//   has none now, because some were lost,   | kept until its deadline, and given up when these are no longer expected:
//   or are announced and have not joined    | worker_return_ms after their loss or announcement (returning_workers.h)
//   has outputs, and fits no worker of the  | given up worker_return_ms after its attempt failed
//   fingerprint that gave them              |
//   has outputs, its client allows other    | kept for its own fingerprint until other_numerics_wait_ms after its attempt
//   numerics, and none that serves of the   | failed, or for half of the time to its deadline where that is less; then
//   fingerprint could ever take it          | started at any workers of the same weights, and not given up while there
//                                           | are some
//   was taken by a former router, and there | given up worker_return_ms after this one has taken it up
//   is no worker for it                     |
//
// The hold lets workers drain for a job that needs more room than ever comes by itself. Its bounds:
// - One job at a time has it, on one decode worker, and while that one has room also on one prefill worker. Every other
//   worker serves on.
// - A held worker gets nothing else, so it admits the job at the latest when it is idle. In this way the turn of a
//   refused job comes, however busy the workers are.
// - After a hold of some duration nobody gets one for the same duration. So a client with prompts as large as the pools
//   keeps even the only worker from the other clients' jobs for at most half of the time, besides the time in which its
//   own jobs run.
#ifndef BATON_ROUTER_PLACING_QUEUE_H_
#define BATON_ROUTER_PLACING_QUEUE_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/clock.h"
#include "router/admission.h"
#include "router/call_ledger.h"
#include "router/cluster_health.h"
#include "router/dispatch_job.h"
#include "router/placement.h"
#include "router/queue_pace.h"
#include "router/returning_workers.h"
#include "router/waiting_line.h"
#include "router/worker_registry.h"

namespace baton::router {

struct PlacingOptions {
  PlacementOptions placement;
  // Prompts shorter than this are prefilled by the decode worker itself; 0: never.
  int32_t local_prefill_tokens = 0;
  int32_t max_passed_over = 8;
  // Jobs that may have their first token within this time after they came go before those that may not; 0: in order of
  // submission.
  int64_t ttft_target_ms = 0;
  // A worker that refused a job gets it again after this time, or once its load has changed.
  int64_t refusal_backoff_ms = 20;
  // A job waits this long for the workers it needs to exist before UNAVAILABLE.
  int64_t no_worker_wait_ms = 2'000;
  // Workers that were lost are expected back for this time, in which their jobs wait.
  int64_t worker_return_ms = 60'000;
  // A job that may go on with other numerics waits this long for workers of its own.
  int64_t other_numerics_wait_ms = 2'000;
};

// Used by one thread. Jobs outlive their stay; registry, ledger, health and clock outlive the queue.
class PlacingQueue {
 public:
  PlacingQueue(const PlacingOptions& options, const Clock& clock, const WorkerRegistry& registry,
               const CallLedger& ledger, const ClusterHealth& health);

  // A new job, or one that comes back to its old place.
  void Add(DispatchJob& job);
  size_t size() const { return line_.size(); }
  // Jobs of the tenant that wait.
  int32_t waiting(const std::string& tenant) const { return line_.waiting(tenant); }

  // What lies before a new job; unknown where nobody waits, where it could start at once, and before some jobs have
  // waited.
  Forecast ForecastFor(const JobSpec& spec, bool has_room) const;
  // How long the workers are kept from others by the job; 0: unknown.
  int64_t ServiceNs(const JobSpec& spec) const { return pace_.NsForCost(clock_.Now(), line_.ExpectedCost(spec)); }
  // How long it takes until so many jobs have left the line for workers; 0: unknown.
  int64_t NsUntilPlaced(int64_t jobs) const { return pace_.NsForJobs(clock_.Now(), jobs); }

  // A job that was placed or waits has ended.
  void OnEnd(const DispatchJob& job);
  // The worker whose room the job needed has taken it.
  void OnAdmitted(const DispatchJob& job) { EndHold(job); }

  // Something has changed that could let a waiting job be started. At a worker: also a job that it refused.
  void OnRoomChanged() { needs_placing_ = true; }
  void OnRoomChanged(const WorkerId& worker);
  // The registry's workers have joined, left, or changed their state.
  void OnWorkersChanged();
  // These two go before OnWorkersChanged. A worker that drained is not lost.
  void OnWorkerJoined(const WorkerInfo& info) { returning_.OnJoined(info); }
  void OnWorkerLost(const WorkerInfo& info) { returning_.OnLost(info, clock_.Now()); }
  // As ReturningWorkers::OnAnnounced; goes before OnWorkersChanged too.
  void OnWorkersAnnounced(const std::vector<WorkerInfo>& announced) {
    returning_.OnAnnounced(announced, registry_, clock_.Now());
  }
  void OnRefusal(DispatchJob& job, const WorkerId& worker);
  // The prompt's worker took `elapsed_ns` for the job's first token.
  void OnFirstToken(const DispatchJob& job, int64_t elapsed_ns) { line_.OnFirstToken(elapsed_ns, job.tokens_to_first); }

  bool FitsNoWorker(DispatchJob& job) { return TryPlace(job).verdict == PlacementVerdict::kImpossible; }
  // Tries the waiting jobs if something has changed since the last time. `start` gets each job that can go, taken out
  // of the queue, with its kind and pair set, for as long as `has_room`. `refuse` gets each that has no outputs
  // and fits no worker; it ends the job.
  void PlaceJobs(absl::FunctionRef<bool()> has_room, absl::FunctionRef<void(DispatchJob&)> start,
                 absl::FunctionRef<void(DispatchJob&)> refuse);
  // The job for which workers drain; null when there is none.
  const DispatchJob* held() const { return hold_ ? hold_->job : nullptr; }
  // Jobs that have waited too long for workers to exist. The caller ends them.
  std::vector<DispatchJob*> UnservedJobs();

  void OnTimer();
  TimeNs NextTimer() const;

 private:
  struct Hold {
    DispatchJob* job = nullptr;
    Pair pair;
    TimeNs since = 0;
    // The workers that no other job may use now.
    std::vector<WorkerId> workers;
  };

  AttemptKind KindOf(const JobSpec& spec) const;
  // Without a fingerprint.
  JobNeeds NeedsOf(const JobSpec& spec) const;
  // As the job may be placed now.
  JobNeeds NeedsOf(const DispatchJob& job) const;
  // At workers of the fingerprint that gave its outputs.
  JobNeeds OwnNeedsOf(const DispatchJob& job) const;
  // When the job may be placed at workers of other numerics; kNever: not at all.
  TimeNs OtherNumericsAt(const DispatchJob& job) const;
  // Whether some workers that serve could take the job, now or later.
  bool SomeServe(const JobNeeds& needs) const;
  void RankJobs(TimeNs now);
  // What the prefill worker with the least to compute has left; unset where none serves.
  std::optional<int64_t> LeastUncomputedTokens() const;
  PlacementResult TryPlace(DispatchJob& job);
  // Where the needs go now, as far as load and health of the workers say.
  PlacementResult PlaceNow(const JobNeeds& needs, const std::vector<WorkerId>& avoid) const;
  // The longest prompt of this class of jobs that could be placed now for a job without refusals and without the hold;
  // 0 when no waiting one could. A comparison with it costs next to nothing, so jobs that do not fit keep nobody behind
  // them from being tried.
  int64_t LongestFitting(size_t job_class);
  // Whether some job could be placed that has no refusals and not the hold.
  bool SomeMayFit();
  void Take(const DispatchJob& job);
  std::vector<WorkerId> AvoidedWorkers(DispatchJob& job);
  void PassOver(DispatchJob& job);
  // Gives the hold to the job if it is due.
  void BeginHold(DispatchJob& job, TimeNs now);
  // Brings the hold's workers up to date; the hold ends when there are none for its job.
  void UpdateHold();
  void EndHold(const DispatchJob& job);
  uint64_t RoomEpoch(const WorkerId& worker) const;
  // Whether the job would fit if all workers were there that are expected back.
  bool FitsReturningWorkers(const DispatchJob& job);
  // When a job stops waiting for workers; kNever while there are some for it.
  TimeNs GiveUpTime(const DispatchJob& job);
  // Whether no worker serves or is expected back that could go on with a job that has outputs or was recovered.
  bool LacksItsGroup(const DispatchJob& job);

  const PlacingOptions options_;
  const Clock& clock_;
  const WorkerRegistry& registry_;
  const CallLedger& ledger_;
  const ClusterHealth& health_;
  WaitingLine line_;
  QueuePace pace_;
  // How often room may have come at a registered worker; absent: never.
  std::map<WorkerId, uint64_t> room_epochs_;
  bool needs_placing_ = false;
  std::optional<Hold> hold_;
  // Nobody gets the hold before this.
  TimeNs next_hold_ = 0;
  // The lengths of the waiting prompts, and the results of LongestFitting that still hold, by class.
  std::array<std::multiset<int64_t>, JobNeeds::kClasses> waiting_prompts_;
  std::array<std::optional<int64_t>, JobNeeds::kClasses> longest_fitting_;
  // The earliest time at which a worker may be asked again that refused a job.
  TimeNs next_retry_ = kNever;
  // Not after the first time at which a waiting job may go on with other numerics.
  TimeNs next_other_numerics_ = kNever;
  // Since when there have been no workers for each class; kNever: there are some.
  std::array<TimeNs, JobNeeds::kClasses> missing_since_;
  // Until when lost workers are expected that would make up what each class needs.
  std::array<TimeNs, JobNeeds::kClasses> expected_until_ = {};
  ReturningWorkers returning_;
  // ReturningWorkers::Everybody; unset where that is not known.
  std::optional<WorkerRegistry> everybody_;
  // Not after the first job that must give up waiting for workers.
  TimeNs next_give_up_ = kNever;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_PLACING_QUEUE_H_
