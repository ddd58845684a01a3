// The router's open calls to workers, and the load that they assign to each worker. A call stays on the ledger until
// the worker has ended it, even if its job is over, because the worker may still hold the blocks. The loss of a worker
// closes all its calls at once.
#ifndef BATON_ROUTER_CALL_LEDGER_H_
#define BATON_ROUTER_CALL_LEDGER_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/status.h"
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
  // The load charged to the worker: prompt tokens until the first output token comes, blocks until the call ends.
  int64_t prompt_tokens = 0;
  int64_t blocks = 0;
  // kStarted came, so RESOURCE_EXHAUSTED is no longer a refusal.
  bool started = false;
  // kFinished came, so the call ends by itself.
  bool finished = false;
  bool cancelled = false;
  // kFrozen came: another attempt goes on, and the call ends when that one has the KV.
  bool frozen = false;
  // The worker's heartbeats at the time when the call was opened.
  int64_t heartbeats = 0;

  bool live() const { return !finished && !cancelled && !frozen; }
  // Whether a call that ends so was refused for lack of room.
  bool IsRefusal(const absl::Status& end) const { return absl::IsResourceExhausted(end) && !started && !finished; }
};

// Used by one thread.
class CallLedger {
 public:
  void Open(const CallKey& key, Call call);
  // Null for a call that is not open. The result is valid until the call is closed.
  Call* Find(const CallKey& key);
  // The worker of an open call.
  std::optional<WorkerId> WorkerOf(const CallKey& key) const;
  // The worker has computed `tokens` more of the call's prompt, or found them in its cache.
  void OnComputed(Call& call, int64_t tokens);
  // The call has ended with this status. No heartbeat has shown a call that was refused, so after one the worker has no
  // more room than its heartbeats say.
  std::optional<Call> Close(const CallKey& key, const absl::Status& end);
  // A heartbeat came, which shows all that was assigned before it.
  void OnLoadHeard(const WorkerId& worker);
  // Closes all calls of the worker and forgets it.
  void OnWorkerLost(const WorkerId& worker);

  const std::map<WorkerId, WorkerAssignment>& assigned() const { return assigned_; }
  size_t size() const { return calls_.size(); }

 private:
  // Ordered, so that equal events give equal actions.
  std::map<CallKey, Call> calls_;
  // Workers that have an open call, or had one since their last heartbeat.
  std::map<WorkerId, WorkerAssignment> assigned_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CALL_LEDGER_H_
