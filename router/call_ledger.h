// The router's open calls to workers, and what they have assigned to each worker. A call stays on the ledger until the
// worker has ended it, also when its job is long over: the worker may still hold what it was given.
#ifndef BATON_ROUTER_CALL_LEDGER_H_
#define BATON_ROUTER_CALL_LEDGER_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "router/job.h"
#include "router/placement.h"

namespace baton::router {

struct CallKey {
  Side side = Side::kPrefill;
  JobKey key;

  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};

struct Call {
  WorkerId worker;
  // Charged to the worker: prompt tokens until their first token comes, blocks until the end.
  int64_t prompt_tokens = 0;
  int64_t blocks = 0;
  // kStarted came: RESOURCE_EXHAUSTED is no refusal any more.
  bool started = false;
  // kFinished came: the call ends by itself.
  bool finished = false;
  bool cancelled = false;

  bool live() const { return !finished && !cancelled; }
};

// Used by one thread.
class CallLedger {
 public:
  void Open(const CallKey& key, const Call& call);
  // Null for a call that is not open. Valid until it is closed.
  Call* Find(const CallKey& key);
  // `tokens` more of the call's prompt need no computing any more.
  void OnComputed(Call& call, int64_t tokens);
  std::optional<Call> Close(const CallKey& key);
  // The worker's heartbeat shows what was assigned before.
  void OnLoadHeard(const WorkerId& worker);
  // The worker is no longer registered: it is forgotten with its last call.
  void OnWorkerGone(const WorkerId& worker);

  std::vector<CallKey> CallsOf(const WorkerId& worker) const;
  const std::map<WorkerId, WorkerAssignment>& assigned() const { return assigned_; }
  size_t size() const { return calls_.size(); }

 private:
  // In order, so that equal events give equal actions.
  std::map<CallKey, Call> calls_;
  // Workers with an open call, or one that has ended since their last heartbeat.
  std::map<WorkerId, WorkerAssignment> assigned_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CALL_LEDGER_H_
