// What the dispatcher wants done. Its owner carries out all of them, in order.
#ifndef BATON_ROUTER_DISPATCH_ACTIONS_H_
#define BATON_ROUTER_DISPATCH_ACTIONS_H_

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/kv_origin.h"
#include "common/worker_job.h"
#include "common/worker_update.h"
#include "router/job.h"
#include "router/worker_registry.h"

namespace baton::router {

// Both calls of an attempt carry the same secret, which proves to P that a reader of the attempt's KV is the D that the
// router named. With TLS, the owner signs a capability for D as well.
struct StartPrefill {
  WorkerId worker;
  Incarnation incarnation;
  std::string target;
  JobKey key;
  Id128 secret;
  std::shared_ptr<const JobSpec> job;
  bool solo = false;
  // The worker that will pull the KV. Zero when solo.
  WorkerId reader = {};
};
struct StartDecode {
  WorkerId worker;
  Incarnation incarnation;
  std::string target;
  JobKey key;
  Id128 secret;
  std::shared_ptr<const JobSpec> job;
  // D computes the prompt itself; no prefill worker.
  bool local_prefill = false;
  // Where the KV is pulled from: the prefill worker, or the worker that hands the job over.
  Incarnation prefill_incarnation;
  std::string prefill_target;
  // Its membership. Zero with local_prefill.
  WorkerId source = {};
  // The workers that the KV came through before, in order: none, unless the source hands the job over.
  std::vector<KvOrigin> earlier = {};
};
// The worker's call is cancelled; OnWorkerEnd follows, unless the worker is lost first.
struct CancelAttempt {
  Side side = Side::kPrefill;
  WorkerId worker;
  JobKey key;
};
// The decode worker is to freeze the running attempt, and to serve its KV to the next one. It answers with kFrozen, or
// goes on to the end. Or the hand-over is taken back, and the frozen attempt goes on.
struct HandOverAttempt {
  WorkerId worker;
  JobKey key;
  HandOver hand_over;
};
// The dispatcher has given the worker up, and has forgotten all its calls. The owner ends the membership's stream with
// this status: a worker that is alive learns so that its jobs are over, and joins anew.
struct EndMembership {
  WorkerId worker;
  absl::Status why;
};
// The worker is to drain, as an operator has ordered. It says so with its next load.
struct DrainWorker {
  WorkerId worker;
};
struct EmitToken {
  ChoiceKey key;
  OutputToken token;
  // Beside output 0 of a job that asks for them: those of the prompt's tokens from the second on.
  std::shared_ptr<const std::vector<PromptLogprob>> prompt = nullptr;
};
// The last action of a choice.
struct EndJob {
  ChoiceKey key;
  JobResult result;
};
using DispatchAction = std::variant<StartPrefill, StartDecode, CancelAttempt, HandOverAttempt, EndMembership,
                                    DrainWorker, EmitToken, EndJob>;

}  // namespace baton::router

#endif  // BATON_ROUTER_DISPATCH_ACTIONS_H_
