// The life of every job at the router, and the one owner of failure: workers return a Status, the dispatcher alone
// requeues, cancels or ends. Events in, actions out; used by one thread, the router's loop. P and D are the prefill and
// the decode worker of the job's current attempt; what earlier attempts still say is ignored.
//
//   state       | event                          | next        | actions
//   ------------+--------------------------------+-------------+-------------------------------------------------------
//   -           | Submit                         | kQueued     | (bounded; beyond it RESOURCE_EXHAUSTED)
//   kQueued     | a pair is free                 | kPlaced     | StartPrefill and StartDecode at once; solo:
//               |                                |             | StartPrefill; one worker for both: StartDecode(local)
//   kQueued     | the prompt fits no worker      | ended       | End(INVALID_ARGUMENT)
//   kQueued     | no workers for too long        | ended       | End(UNAVAILABLE)
//   kPlaced     | D refuses: RESOURCE_EXHAUSTED  | kQueued     | CancelPrefill in the same step; back to its place in
//               | before kStarted                |             | line, ahead of all that came later; attempt + 1
//   kPlaced     | P refuses likewise             | kQueued     | CancelDecode likewise
//   kPlaced     | refused max_refusals times     | ended       | End(RESOURCE_EXHAUSTED)
//   kPlaced     | first token of P, or of D      | kStreaming  | Emit(0)
//   kStreaming  | token i of D                   | kStreaming  | Emit(i) after i - 1; token 0 again must be equal, else
//               |                                |             | INTERNAL
//   kPlaced,    | the last token, of P or of D   | kFinishing  | Emit it; CancelDecode where it is P's
//   kStreaming  |                                |             |
//   kStreaming  | Cancel(OK): a stop string      | kFinishing  | CancelDecode
//   kFinishing  | nothing is awaited any more:   | ended       | End(OK)
//               | the sender of the last token   |             |
//               | has reported or is gone, and   |             |
//               | so has P where its digest was  |             |
//               | asked for; or after            |             |
//               | report_wait_ms                 |             |
//   kPlaced,    | an error of P or D             | ended       | End(it); what may be the echo of the other side's
//   kStreaming  |                                |             | failure or refusal waits a moment for that
//   kStreaming  | an error of P after token 0    | kStreaming  | (D will say whether it has the KV)
//   kPlaced,    | D lost, or P lost before the   | ended       | End(UNAVAILABLE)
//   kStreaming  | KV was committed at D          |             |
//   any         | Cancel, deadline               | ended       | End(status)
//
// End cancels the calls of the job that are open and have not said kFinished, then gives EndJob, the job's last action.
// Which waiting job goes next, and to which workers, is placing_queue.h's.
// A cancelled attempt keeps counting as assigned until its worker ended the call.
#ifndef BATON_ROUTER_DISPATCHER_H_
#define BATON_ROUTER_DISPATCHER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/limits.h"
#include "common/worker_update.h"
#include "router/dispatch_actions.h"
#include "router/job.h"
#include "router/placement.h"
#include "router/placing_queue.h"
#include "router/worker_registry.h"

namespace baton::router {

struct DispatcherOptions {
  PlacingOptions placing;
  // Waiting jobs beyond which new ones are refused; jobs that come back from a worker are not.
  int32_t max_queued_jobs = kMaxQueuedJobs;
  // Open calls are bounded by twice this.
  int32_t max_running_jobs = kMaxRunningJobs;
  // Attempts that were refused for lack of room before the job fails with RESOURCE_EXHAUSTED.
  int32_t max_refusals = 10'000;
  // After an error of one worker that may be an echo, this long for the other one's word.
  int64_t echo_wait_ms = 200;
  // After the last token, this long for the workers' reports: the job then ends well without them.
  int64_t report_wait_ms = 5'000;
  // A worker that sends nothing for so long is lost.
  int64_t worker_silence_ms = 5'000;
};

class Dispatcher {
 public:
  Dispatcher(const DispatcherOptions& options, const Clock& clock);
  ~Dispatcher();

  // RESOURCE_EXHAUSTED when the queue is full, INVALID_ARGUMENT for an empty prompt, ALREADY_EXISTS for a choice
  // that is here: then nothing is queued and no EndJob follows.
  absl::Status Submit(std::shared_ptr<const JobSpec> job);
  // Ends the choice with `why`; unknown ones are ignored. An OK status ends it as FinishReason::kStop (a stop string
  // matched).
  void Cancel(const ChoiceKey& key, const absl::Status& why);

  void OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update);
  // The call ended; OK after kFinished. Nothing more comes from it.
  void OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status);

  absl::Status OnWorkerJoin(const WorkerInfo& info);
  void OnWorkerLoad(const WorkerId& id, const WorkerLoad& load);
  // Its registration stream broke or it said goodbye: its attempts end with UNAVAILABLE, but for those whose KV another
  // worker holds already. Unknown workers are ignored.
  void OnWorkerLost(const WorkerId& id, const absl::Status& why);
  void OnTimer();

  TimeNs NextTimer() const;
  std::vector<DispatchAction> TakeActions();

  const WorkerRegistry& registry() const;
  int32_t queued_jobs() const;
  int32_t running_jobs() const;
  // Calls to workers that have not ended, of whatever job.
  int32_t open_calls() const;
  // Per worker, what it has been given and not given back.
  const std::map<WorkerId, WorkerAssignment>& assigned() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DISPATCHER_H_
