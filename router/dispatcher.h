// The life of every job at the router, and the one owner of failure: workers return a Status, the dispatcher alone
// requeues, cancels or ends. Events in, actions out; used by one thread, the router's loop. P and D are the prefill and
// the decode worker of the job's current attempt; updates of earlier attempts are ignored.
//
//   state       | event                          | next        | actions
//   ------------+--------------------------------+-------------+-------------------------------------------------------
//   -           | Submit of a choice that        | kFollowing  | (refused likewise; it counts as queued)
//               | follows another one of its job |             |
//   kFollowing  | that one has its first output, | kQueued     | (its place in line is that of its submission)
//               | and its prompt's KV committed, |             |
//               | or has ended                   |             |
//   -           | Submit                         | kQueued     | (refused with RESOURCE_EXHAUSTED where the queue is full,
//               |                                |             | the tenant has used up its tokens (tenant_buckets.h), or
//               |                                |             | the deadline would pass before the first token
//               |                                |             | (admission.h); retry_plan.h says when to come back;
//               |                                |             | a job that a former router took is never refused)
//   kQueued     | a pair is free                 | kPlaced     | StartPrefill and StartDecode at once; solo:
//               |                                |             | StartPrefill; one worker for both: StartDecode(local)
//   kQueued     | the prompt fits no worker      | ended       | End(INVALID_ARGUMENT)
//   kQueued     | the deadline is certain to     | ended       | End(RESOURCE_EXHAUSTED)
//               | pass before output 0           |             |
//   kQueued     | no workers for too long; lost  | ended       | End(UNAVAILABLE)
//               | ones are waited for longer,    |             |
//               | and by a recovered job         |             |
//   kPlaced     | D refuses: RESOURCE_EXHAUSTED  | kQueued     | CancelPrefill in the same step; back to its place in
//               | before kStarted                |             | line, ahead of all that came later; attempt + 1
//   kPlaced     | P refuses likewise             | kQueued     | CancelDecode likewise
//   kPlaced     | refused max_refusals times     | ended       | End(RESOURCE_EXHAUSTED)
//   kPlaced     | log-probabilities of the       | kPlaced     | (kept; outputs of D that overtake the last of them are
//               | prompt, where asked for        |             | held back until then)
//   kPlaced     | first token of P, or of D      | kStreaming  | Emit(0), with all log-probabilities of the prompt
//   kPlaced     | first token after others, of   | kStreaming  | Emit it and all later ones with other_numerics
//               | another fingerprint            |             |
//   kStreaming  | token i of D                   | kStreaming  | Emit(i) after i - 1; token 0 again must be equal, and
//               |                                |             | the token at max_tokens the last, else INTERNAL
//   kPlaced,    | the last token, of P or of D   | kFinishing  | Emit it; CancelDecode where it is P's
//   kStreaming  |                                |             |
//   kStreaming  | Cancel(OK): a stop string      | kFinishing  | CancelDecode
//   kFinishing  | nothing is awaited any more:   | ended       | End(OK)
//               | the sender of the last token   |             |
//               | has reported or is gone, and   |             |
//               | so has P where its digest was  |             |
//               | asked for; or after            |             |
//               | report_wait_ms                 |             |
//   kPlaced,    | an error of P or D that        | kQueued     | failover; an error that may only echo the other side's
//   kStreaming  | another attempt may not have   |             | failure or refusal waits echo_wait_ms for that one; one
//               |                                |             | that came before the commit is the pair's (pair_health.h)
//   kPlaced,    | another error of P or D        | ended       | End(it), likewise
//   kStreaming  |                                |             |
//   kStreaming  | an error of P after token 0    | kStreaming  | (D will say whether it has the KV)
//   kPlaced,    | a fault of D or P in a step    | ended       | End(INTERNAL); the same request is refused for a while
//   kStreaming  | of this job alone, and an      |             |
//               | earlier fault in one with it   |             |
//   kPlaced,    | another fault in a step with   | kQueued     | failover; workers compute its next outputs in steps
//   kStreaming  | this job                       |             | of their own
//   kPlaced,    | D lost, or P lost before the   | kQueued     | failover
//   kStreaming  | KV was committed at D          |             |
//   kStreaming  | P left that was draining       | kStreaming  | (D will say whether it has the KV)
//   kFinishing  | the worker lost from which a   | ended       | End(OK)
//               | report is awaited              |             |
//   kStreaming  | Pause: its client does not     | kPaused     | CancelPrefill, CancelDecode: other jobs get their room
//               | read                           |             |
//   kPaused     | Continue: it has read          | kQueued     | (as after a failover, but nobody is blamed)
//   kPaused     | max_paused_ms have passed      | ended       | End(RESOURCE_EXHAUSTED)
//   kStreaming  | D drains and has the KV, some  | kStreaming  | HandOverAttempt; D goes on meanwhile
//               | other has room, and fewer than |             |
//               | max_moves jobs are moving      |             |
//   kStreaming  | D is frozen                    | kStreaming  | attempt + 1: StartDecode at the other worker, with D
//               |                                |             | in P's place and D's last token in token 0's
//   kStreaming  | D is frozen, and nobody has    | kStreaming  | HandOverAttempt is taken back: D goes on
//               | room any more                  |             |
//   kStreaming  | the other worker refuses,      | kQueued     | failover
//               | before it has the KV           |             |
//   any         | Cancel, deadline               | ended       | End(status)
//
//   a worker is | event                          | next        | actions
//   ------------+--------------------------------+-------------+-------------------------------------------------------
//   -           | OnWorkerJoin                   | member      | (a member that it resumes is given up before)
//   member      | OrderDrain                     | member      | DrainWorker; its load will say that it drains
//   member      | its load says that it drains   | member      | (nothing is placed there any more)
//   member      | OnWorkerLost: its stream broke | lost        | the rows above for all its jobs, at once
//   member      | not heard for                  | lost        | likewise, and EndMembership
//               | worker_silence_ms              |             |
//   member      | a step of its engine takes     | lost        | likewise, and EndMembership
//               | longer than engine_stall_ms    |             |
//   member      | its process joins anew         | lost        | likewise, and EndMembership
//   member      | OnWorkerFault: its process dies| lost        | likewise
//   lost        | whatever comes from it         | lost        | (ignored: a worker is its membership)
//
// Failover cancels what is left of the attempt and puts the job back to its place in line, ahead of all that came
// later. The next attempt takes the prompt and all outputs so far, and goes on at the next index, on workers of the
// fingerprint that gave these outputs: since a row of the engine does not depend on what runs beside it, the client
// gets exactly the tokens that it would have had. max_losses and max_errors bound it, and then the job ends with the
// last error. Where its client allows it and nobody is left who computes the same, workers of another fingerprint with
// the same weights go on (placing_queue.h): each output from there on is labelled, and that fingerprint is the job's. A
// fault that names the jobs of its step counts against none: what a bystander met is not its own doing.
//
// A job is not paused while its digest is awaited, when max_running_jobs are paused already, or when no prefill worker
// would hold its prompt and outputs. Its client is behind again at its next output then.
//
// A move takes a running job from a decode worker that drains to another one, by the hand-off of a prompt: that of the
// prompt and all outputs but the last, which is in place. Whatever happens before D is frozen happens to an ordinary
// job of D, and whatever happens later to an ordinary pair whose P has given its output: the rows above say what. A job
// that has not moved when D's time to drain is over fails over. D's call stays open, without a word, until D has let
// the KV go. A job whose digest is still awaited does not move.
//
// The loss of a worker is one event: it closes all calls of the worker, and no OnWorkerEnd follows for them. The
// silence of a worker counts from the dispatcher's waking when the dispatcher itself did not run before (pause_ms).
//
// End cancels the job's open calls that have not reported kFinished, then emits EndJob, the job's last action.
// placing_queue.h decides which waiting job goes next, and to which workers. The dispatcher tells cluster_health.h how
// hand-offs end and how fast workers compute.
// A cancelled attempt counts as assigned until its worker has ended the call.
#ifndef BATON_ROUTER_DISPATCHER_H_
#define BATON_ROUTER_DISPATCHER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/block_report.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/limits.h"
#include "common/random.h"
#include "common/worker_update.h"
#include "router/block_ledger.h"
#include "router/canaries.h"
#include "router/cluster_health.h"
#include "router/dispatch_actions.h"
#include "router/drain_orders.h"
#include "router/job.h"
#include "router/membership_counts.h"
#include "router/placement.h"
#include "router/placing_queue.h"
#include "router/tenant_buckets.h"
#include "router/worker_registry.h"

namespace baton::router {

// A worker that dies of a fault of its own: of which signal, and the attempts of the step that failed, if it was a
// step.
struct WorkerFault {
  int signal = 0;
  std::vector<JobKey> at_work;
};

// One of so many places in the queue is kept for tenants that do not fill the others.
inline constexpr int32_t kKeptPlaces = 8;

struct DispatcherOptions {
  PlacingOptions placing;
  // New jobs are refused while this many wait. Jobs that come back from a worker are never refused.
  int32_t max_queued_jobs = kMaxQueuedJobs;
  TenantBucketOptions tenant_buckets;
  // Open calls are bounded by twice this, and max_moves.
  int32_t max_running_jobs = kMaxRunningJobs;
  // A job fails with RESOURCE_EXHAUSTED after this many attempts that workers refused for lack of room.
  int32_t max_refusals = 10'000;
  // A job fails after so many attempts in a row, none of which got beyond its first output, that ended with the
  // unexplained loss of a worker which computed for the job, or with a worker's error. 0: at the first loss.
  int32_t max_losses = 10;
  int32_t max_errors = 3;
  // Jobs that move from workers that drain, at a time. The others go on where they are until it is their turn.
  int32_t max_moves = 4;
  // An error of one worker that may be an echo waits this long for the other worker's error.
  int64_t echo_wait_ms = 200;
  // A job is paused for at most so long at a time.
  int64_t max_paused_ms = kMaxPausedMs;
  // After the last token the job waits this long for the workers' reports, then ends well without them.
  int64_t report_wait_ms = 5'000;
  // A worker that sends nothing for this time is lost.
  int64_t worker_silence_ms = kWorkerSilenceMs;
  // A worker is lost whose engine has been in one step for longer than this.
  int64_t engine_stall_ms = kEngineStallMs;
  // A pair of workers without a hand-off for so long gets a canary (canaries.h); 0: no canaries at all.
  int64_t canary_interval_ms = 0;
  // The dispatcher was paused, and not its workers silent, when OnTimer comes later than it was due by more than this.
  int64_t pause_ms = 1'000;
};

class Dispatcher {
 public:
  // `clock` and `random`, which draws the secrets of the attempts, outlive the dispatcher.
  Dispatcher(const DispatcherOptions& options, const Clock& clock, RandomSource& random);
  ~Dispatcher();

  // RESOURCE_EXHAUSTED when the queue is full, INVALID_ARGUMENT for an empty prompt, ALREADY_EXISTS for a choice
  // that is here: then nothing is queued and no EndJob follows.
  absl::Status Submit(std::shared_ptr<const JobSpec> job);
  // Ends the choice with `why`; unknown ones are ignored. An OK status ends it as FinishReason::kStop (a stop string
  // matched).
  void Cancel(const ChoiceKey& key, const absl::Status& why);
  // Cancels all choices of the job that are left.
  void CancelJob(const JobId& id, const absl::Status& why);
  // The client of the choice does not read its outputs, or has read them after all. Both ignore a choice that is not in
  // the state for it.
  void Pause(const ChoiceKey& key);
  void Continue(const ChoiceKey& key);

  void OnWorkerUpdate(Side side, const JobKey& key, const WorkerUpdate& update);
  // The call has ended, with OK after kFinished. Nothing more comes from it.
  void OnWorkerEnd(Side side, const JobKey& key, const absl::Status& status);

  // `info.id` is a membership that the owner has drawn for this join. Fails as WorkerRegistry::CheckJoin does.
  absl::Status OnWorkerJoin(const WorkerInfo& info);
  // The owner or OnWorkerJoin has refused the worker. False when that is known, as RefusedWorkers::Add says.
  bool OnWorkerRefused(RefusedWorker refused);
  // The workers that the fleet's directory announces now, members or not: jobs wait for them as for lost ones.
  void OnWorkersAnnounced(const std::vector<WorkerInfo>& announced);
  // This and the next two ignore unknown memberships.
  void OnWorkerLoad(const WorkerId& id, const WorkerLoad& load);
  // What the worker holds; the result is what is wrong with that since now.
  LedgerNews OnWorkerBlocks(const WorkerId& id, const BlockReport& report);
  // The membership's stream broke, or the worker said goodbye. Its attempts end with UNAVAILABLE, except those whose KV
  // another worker already holds.
  void OnWorkerLost(const WorkerId& id, const absl::Status& why);
  // The worker's process dies, and has said of what.
  void OnWorkerFault(const WorkerId& id, const WorkerFault& fault);
  // An operator wants the worker of this name (worker_names.h) to drain. Fails as FindNamedWorker does, and with
  // FAILED_PRECONDITION when it drains already or is of a version that takes no such order.
  absl::StatusOr<WorkerId> OrderDrain(std::string_view name);
  void OnTimer();

  TimeNs NextTimer() const;
  std::vector<DispatchAction> TakeActions();

  const WorkerRegistry& registry() const;
  const MembershipCounts& memberships() const;
  const BlockLedger& block_ledger() const;
  const DrainOrders& drain_orders() const;
  // The fingerprint of the workers that gave the choice's last output; empty for a choice without any, and for an
  // unknown one.
  std::string FingerprintOf(const ChoiceKey& key) const;
  int32_t queued_jobs() const;
  int32_t running_jobs() const;
  // They neither run nor wait for workers.
  int32_t paused_jobs() const;
  const std::set<ChoiceKey>& paused() const;
  // Calls to workers that have not ended; their jobs may have.
  int32_t open_calls() const;
  // What each worker has been given and has not given back.
  const std::map<WorkerId, WorkerAssignment>& assigned() const;
  const ClusterHealth& health() const;
  // Ended canaries, by outcome.
  const CanaryCounts& canary_counts() const;
  // Changes of workers' health since the last call, each to be logged once.
  std::vector<std::string> TakeHealthNotes();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DISPATCHER_H_
