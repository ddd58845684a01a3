// The jobs that wait for workers. The queue decides which job goes next and to which workers, which workers a refused
// job avoids, and how long a job waits for workers that do not exist. It reads registry and ledger; the dispatcher
// acts.
//
//   a waiting job                           | is
//   ----------------------------------------+-------------------------------------------------------------------------
//   fits a pair now                         | started, in the order of waiting_line.h
//   does not fit now                        | passed over by at most max_passed_over jobs that fit; then it is hurried,
//                                           | and nothing is started before it
//   was refused by a worker                 | not sent there for refusal_backoff_ms, or until room may have come there
//   fits no worker at all                   | refused
//   has no workers for its kind of attempt  | given up after no_worker_wait_ms
#ifndef BATON_ROUTER_PLACING_QUEUE_H_
#define BATON_ROUTER_PLACING_QUEUE_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/clock.h"
#include "router/call_ledger.h"
#include "router/dispatch_job.h"
#include "router/placement.h"
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
};

// Used by one thread. Jobs outlive their stay; registry, ledger and clock outlive the queue.
class PlacingQueue {
 public:
  PlacingQueue(const PlacingOptions& options, const Clock& clock, const WorkerRegistry& registry,
               const CallLedger& ledger);

  // A new job, or one that comes back to its old place.
  void Add(DispatchJob& job);
  void Remove(const DispatchJob& job) { line_.Remove(job); }
  size_t size() const { return line_.size(); }

  // Something has changed that could let a waiting job be started. At a worker: also a job that it refused.
  void OnRoomChanged() { needs_placing_ = true; }
  void OnRoomChanged(const WorkerId& worker);
  // Workers have joined, left or begun to drain.
  void OnWorkersChanged();
  void OnRefusal(DispatchJob& job, const WorkerId& worker);
  // The prompt's worker took `elapsed_ns` for the job's first token.
  void OnFirstToken(const DispatchJob& job, int64_t elapsed_ns) { line_.OnFirstToken(elapsed_ns, job.tokens_to_first); }

  bool FitsNoWorker(DispatchJob& job) { return TryPlace(job).verdict == PlacementVerdict::kImpossible; }
  // Tries the waiting jobs if something has changed since the last time. `start` gets each job that can go, taken out
  // of the queue, with its kind and pair set, for as long as `has_room`. `refuse` gets each that fits no worker; it
  // removes the job.
  void PlaceJobs(absl::FunctionRef<bool()> has_room, absl::FunctionRef<void(DispatchJob&)> start,
                 absl::FunctionRef<void(DispatchJob&)> refuse);
  // Jobs that have waited too long for workers to exist. The caller removes them.
  std::vector<DispatchJob*> UnservedJobs();

  void OnTimer();
  TimeNs NextTimer() const;

 private:
  AttemptKind KindOf(const JobSpec& spec) const;
  void RankJobs(TimeNs now);
  PlacementResult TryPlace(DispatchJob& job);
  std::vector<WorkerId> AvoidedWorkers(DispatchJob& job);
  uint64_t RoomEpoch(const WorkerId& worker) const;
  // When a job stops waiting for workers; kNever while there are some for it.
  TimeNs GiveUpTime(const DispatchJob& job) const;

  const PlacingOptions options_;
  const Clock& clock_;
  const WorkerRegistry& registry_;
  const CallLedger& ledger_;
  WaitingLine line_;
  // How often room may have come at a registered worker; absent: never.
  std::map<WorkerId, uint64_t> room_epochs_;
  bool needs_placing_ = false;
  // The earliest time at which a worker may be asked again that refused a job.
  TimeNs next_retry_ = kNever;
  // Since when there have been no workers for each AttemptKind; kNever: there are some.
  std::array<TimeNs, kAttemptKinds> missing_since_;
  // Not after the first job that must give up waiting for workers.
  TimeNs next_give_up_ = kNever;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_PLACING_QUEUE_H_
