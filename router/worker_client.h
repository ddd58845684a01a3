// The router's calls to its workers: carries out the dispatcher's actions over gRPC and posts the workers' updates to
// the loop.
#ifndef BATON_ROUTER_WORKER_CLIENT_H_
#define BATON_ROUTER_WORKER_CLIENT_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/clock.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/client_stream.h"
#include "router/router_loop.h"

namespace baton::router {

// Thread-safe. `loop` outlives it, and the loop's thread, which starts calls, has stopped before it is destroyed.
class WorkerClient final : public WorkerCalls {
 public:
  WorkerClient(const Clock& clock, RouterLoop& loop) : clock_(clock), loop_(loop) {}
  // Cancels the open calls and waits until every call has ended.
  ~WorkerClient() override;

  void Start(const StartPrefill& start) override;
  void Start(const StartDecode& start) override;
  void Cancel(const CancelAttempt& cancel) override;

 private:
  using CallKey = std::pair<Side, JobKey>;
  // Cancels one call; hides the types of its messages.
  using Canceller = std::function<void()>;

  template <typename Request, typename Response, typename StartCall>
  void Launch(const CallKey& key, Request request, StartCall start);
  void OnDone(const CallKey& key, const absl::Status& status);

  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); }

  const Clock& clock_;
  RouterLoop& loop_;
  rpc::ChannelCache channels_;
  absl::Mutex mutex_;
  absl::flat_hash_map<CallKey, Canceller> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::router

#endif  // BATON_ROUTER_WORKER_CLIENT_H_
