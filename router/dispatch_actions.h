// What the dispatcher wants done. Its owner carries out all of them, in order.
#ifndef BATON_ROUTER_DISPATCH_ACTIONS_H_
#define BATON_ROUTER_DISPATCH_ACTIONS_H_

#include <memory>
#include <string>
#include <variant>

#include "common/ids.h"
#include "common/worker_update.h"
#include "router/job.h"
#include "router/worker_registry.h"

namespace baton::router {

struct StartPrefill {
  WorkerId worker;
  std::string target;
  JobKey key;
  std::shared_ptr<const JobSpec> job;
  bool solo = false;
};
struct StartDecode {
  WorkerId worker;
  std::string target;
  JobKey key;
  std::shared_ptr<const JobSpec> job;
  // D computes the prompt itself; no prefill worker.
  bool local_prefill = false;
  WorkerId prefill_worker;
  std::string prefill_target;
};
// The worker's call is cancelled; OnWorkerEnd follows.
struct CancelAttempt {
  Side side = Side::kPrefill;
  WorkerId worker;
  JobKey key;
};
struct EmitToken {
  ChoiceKey key;
  OutputToken token;
};
// The last action of a choice.
struct EndJob {
  ChoiceKey key;
  JobResult result;
};
using DispatchAction = std::variant<StartPrefill, StartDecode, CancelAttempt, EmitToken, EndJob>;

}  // namespace baton::router

#endif  // BATON_ROUTER_DISPATCH_ACTIONS_H_
