// One gRPC channel for each process that is called, made at first use.
#ifndef BATON_COMMON_RPC_CHANNEL_CACHE_H_
#define BATON_COMMON_RPC_CHANNEL_CACHE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"
#include "common/rpc/credentials.h"

namespace baton::rpc {

// The arguments of all our channels and servers: bounds of messages, and keepalive, so that a dead peer is noticed. A
// connection between our own processes has 5 s to come up; a refused one fails at once.
grpc::ChannelArguments ChannelArguments();
// The same for clients of the router, which may be far away or start on a busy machine: 20 s, or the call's deadline.
grpc::ChannelArguments ClientChannelArguments();
// A `max_receive_bytes` of 0 means the bound of messages between our own processes.
void ConfigureServer(grpc::ServerBuilder& builder, int max_receive_bytes = 0);

// Thread-safe. Processes come from the registry, in which at most kMaxWorkers live at a time. Whenever the cache makes
// a channel, it forgets those that have neither a connection nor a call, and so the processes that have ended. The
// connection to a host that has vanished without a word stays until gRPC closes it, after half an hour without a call.
// A cache of twice kMaxWorkers is emptied.
class ChannelCache {
 public:
  // Null `credentials` are plain text; others outlive the cache. When they have changed, the next Get makes a new
  // channel; calls on the old one go on.
  explicit ChannelCache(Credentials* credentials = nullptr) : credentials_(credentials) {}

  // `target` is where the process listens. Another process has another channel, also behind the same name: a container
  // that starts anew has another address, and a channel would try the old one first.
  std::shared_ptr<grpc::Channel> Get(const std::string& target, const Incarnation& process) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::shared_ptr<grpc::Channel> channel;
    // The generation of the credentials that the channel was made with.
    int64_t generation = 0;
  };

  Credentials* const credentials_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::pair<std::string, Incarnation>, Entry> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CHANNEL_CACHE_H_
