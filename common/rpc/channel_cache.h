// One gRPC channel a target, made at first use.
#ifndef BATON_COMMON_RPC_CHANNEL_CACHE_H_
#define BATON_COMMON_RPC_CHANNEL_CACHE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace baton::rpc {

// Arguments of every channel and server of ours: message bounds, and a connection that notices a dead peer.
grpc::ChannelArguments ChannelArguments();
// `max_receive_bytes` 0: as large as our own messages get.
void ConfigureServer(grpc::ServerBuilder& builder, int max_receive_bytes = 0);

// Thread-safe. Targets come from the registry: at most kMaxWorkers live at a time; the cache starts anew beyond twice
// that.
class ChannelCache {
 public:
  std::shared_ptr<grpc::Channel> Get(const std::string& target) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CHANNEL_CACHE_H_
