// The port on which workers join: ClusterService on a gRPC server and a completion queue of its own, with one thread
// that clients cannot fill. Each message of a worker becomes one task of the router's loop, and the next message is
// read when the loop has taken it, so that at most one message of a worker waits for the loop.
#ifndef BATON_ROUTER_CLUSTER_SERVER_H_
#define BATON_ROUTER_CLUSTER_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/random.h"
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
};

// Used by the main thread. Runs the loop as long as it lives, because the loop's thread calls it and it posts to the
// loop: the constructor starts the loop and the destructor stops it first. What else posts to the loop may outlive it.
class ClusterServer {
 public:
  // `clock`, `random` and `loop` outlive it. `random` is used on the loop.
  ClusterServer(const ClusterServerOptions& options, const Clock& clock, RandomSource& random, RouterLoop& loop);
  ~ClusterServer();

  // Once: lets workers join. UNAVAILABLE, naming the port, when the port is taken.
  absl::Status Listen();
  // host:port at which workers reach it, once Listen has succeeded.
  const std::string& address() const { return address_; }

 private:
  // The rest on the server's thread.
  void Run();
  void Handle(const ClusterStream::Tag& tag, bool ok);
  void AwaitNextWorker();
  void OnConnected(ClusterStream& stream);
  void OnRead(const std::shared_ptr<ClusterStream>& stream, bool ok);
  // Ends the streams that should have said hello by now.
  void EndSilentStreams();

  const ClusterServerOptions options_;
  const Clock& clock_;
  RouterLoop& loop_;
  // The loop's.
  ClusterMembers members_;
  ClusterStream::Service service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::thread thread_;

  // The server's thread's.
  absl::flat_hash_map<ClusterStream*, std::shared_ptr<ClusterStream>> streams_;
  // The streams without hello, which have the same time to say it: the first one's ends first.
  std::deque<ClusterStream*> joining_;
  bool stopping_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CLUSTER_SERVER_H_
