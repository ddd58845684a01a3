// The port on which workers join: ClusterService on a gRPC server of its own, which clients cannot fill. The streams
// are events of the router's loop; a thread only waits for new ones. The next message of a worker is read when the loop
// has taken the one before.
#ifndef BATON_ROUTER_CLUSTER_SERVER_H_
#define BATON_ROUTER_CLUSTER_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/random.h"
#include "common/rpc/credentials.h"
#include "common/rpc/event_queue.h"
#include "router/cluster_members.h"
#include "router/cluster_stream.h"
#include "router/router_loop.h"

namespace baton::router {

struct ClusterServerOptions {
  std::string bind;
  // 0: any free one.
  int port = 0;
  // A stream that has not said hello after this time is ended.
  int64_t hello_timeout_ms = kHelloTimeoutMs;
  ClusterMembersOptions members;
  // Null: plain text, and everybody may join. They outlive the server.
  rpc::Credentials* credentials = nullptr;
};

// Used by the main thread. Runs the loop as long as it lives, because the loop's thread calls it and it posts to the
// loop: the constructor starts the loop and the destructor stops it first. What else posts to the loop may outlive it.
class ClusterServer final : private ClusterStream::Owner {
 public:
  // All references outlive it. `events` are the loop's; `random` is used on the loop.
  ClusterServer(const ClusterServerOptions& options, const Clock& clock, RandomSource& random, RouterLoop& loop,
                rpc::EventQueue& events);
  ~ClusterServer() override;

  // Once: lets workers join. UNAVAILABLE, naming the port, when the port is taken.
  absl::Status Listen();
  // As ClusterMembers::OnAnnounced. Any thread.
  void OnAnnounced(std::vector<internal::v1::Hello> hellos);
  // host:port at which workers reach it, once Listen has succeeded.
  const std::string& address() const { return address_; }

 private:
  void AwaitNextWorker();
  // From the accepting thread and the loop.
  void CountOpen(int change) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnConnected(ClusterStream& stream, bool ok) override;
  // The rest on the loop.
  void Adopt(ClusterStream& stream, Dispatcher& dispatcher);
  void OnMessage(ClusterStream& stream) override;
  void OnHelloTimeout(ClusterStream& stream) override;
  void OnClosed(ClusterStream& stream) override;
  void OnDone(ClusterStream& stream) override;

  const ClusterServerOptions options_;
  RouterLoop& loop_;
  rpc::EventQueue& events_;
  ClusterStream::Service service_;
  std::string address_;

  // The loop's. The dispatcher is there once a stream is.
  ClusterMembers members_;
  Dispatcher* dispatcher_ = nullptr;
  absl::flat_hash_map<ClusterStream*, std::shared_ptr<ClusterStream>> streams_;
  // The streams whose worker has to say hello.
  int joining_ = 0;

  // Streams that are a worker's call and not done.
  absl::Mutex mutex_;
  int open_streams_ ABSL_GUARDED_BY(mutex_) = 0;

  // The accepting thread's, until it ends: the stream of the next worker.
  std::shared_ptr<ClusterStream> next_;
  std::optional<rpc::AcceptThread> accepting_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CLUSTER_SERVER_H_
