// A phase as a process runs it: its core on the engine's loop, and how the router's calls reach it.
#ifndef BATON_WORKER_PHASE_H_
#define BATON_WORKER_PHASE_H_

#include "absl/status/status.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/worker_job.h"
#include "worker/worker_core.h"

namespace baton::worker {

// A worker is a set of phases over one core: a mixed worker has both. All but AddTo is called on the loop.
class Phase {
 public:
  virtual ~Phase() = default;
  // Once, before the loop: makes the phase's core over `worker`, which answers through `updates`. Both outlive the
  // phase.
  virtual void AddTo(WorkerCore& worker, UpdateSink& updates) = 0;
  // Which starts are the phase's.
  virtual internal::v1::CallStart::SideCase side() const = 0;
  // `start`, of this side, is what `job` was read from. An error means that nothing was started, and ends the call.
  virtual absl::Status Start(WorkerJob job, const internal::v1::CallStart& start) = 0;
  // The core ends the call. Jobs that it does not know are ignored.
  virtual void Cancel(const JobKey& key, const absl::Status& why) = 0;
  // The core hands the job over to another worker, if it can. Only a phase that decodes can.
  virtual void Begin(const JobKey& /*key*/, const HandOver& /*hand_over*/) {}
};

}  // namespace baton::worker

#endif  // BATON_WORKER_PHASE_H_
