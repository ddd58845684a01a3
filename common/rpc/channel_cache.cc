#include "common/rpc/channel_cache.h"

#include "common/limits.h"

namespace baton::rpc {
namespace {

// A prompt of token ids, or its BlocksReady, can be larger than a client's message.
constexpr int kMaxInternalMessageBytes = 64 << 20;
constexpr int kKeepaliveTimeMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kMaxReconnectBackoffMs = 1'000;
constexpr int kMinPingIntervalMs = 5'000;
// A worker's host that does not answer at all is given up after this time.
constexpr int kWorkerConnectTimeoutMs = 5'000;
// For a client, the call's own deadline is the limit where it is earlier.
constexpr int kClientConnectTimeoutMs = 20'000;

// An argument that is set twice keeps its first value.
grpc::ChannelArguments MakeArguments(int connect_timeout_ms) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxInternalMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxInternalMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs / 10);
  // This is also the time that gRPC gives a connection to come up, handshake included. It does not delay the next
  // attempt after one that was refused.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, connect_timeout_ms);
  // Two tests or clusters on one host must not share connections' fate.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

}  // namespace

grpc::ChannelArguments ChannelArguments() { return MakeArguments(kWorkerConnectTimeoutMs); }

grpc::ChannelArguments ClientChannelArguments() { return MakeArguments(kClientConnectTimeoutMs); }

void ConfigureServer(grpc::ServerBuilder& builder, int max_receive_bytes) {
  builder.SetMaxReceiveMessageSize(max_receive_bytes > 0 ? max_receive_bytes : kMaxInternalMessageBytes);
  builder.SetMaxSendMessageSize(kMaxInternalMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
  // A port that is in use is an error: two servers must not share it.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

std::shared_ptr<grpc::Channel> ChannelCache::Get(const std::string& target, const Incarnation& process) {
  absl::MutexLock lock(&mutex_);
  const int64_t generation = credentials_ == nullptr ? 0 : credentials_->generation();
  const auto known = channels_.find({target, process});
  if (known != channels_.end() && known->second.generation == generation) return known->second.channel;
  // A channel without a connection has nothing that is worth keeping: the next call would have to connect anyway. The
  // caller's thread destroys it here. Calls hold their channel, and a thread of gRPC that drops the last reference to
  // it at the end of a call might wait for its own end.
  absl::erase_if(channels_, [](const auto& entry) {
    const std::shared_ptr<grpc::Channel>& channel = entry.second.channel;
    return channel.use_count() == 1 && channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY;
  });
  if (channels_.size() >= 2 * static_cast<size_t>(kMaxWorkers)) channels_.clear();
  Entry& entry = channels_[{target, process}];
  entry = {.channel = grpc::CreateCustomChannel(target, ChannelCredentialsOf(credentials_, Peer::kKvOwner),
                                                ChannelArguments()),
           .generation = generation};
  return entry.channel;
}

}  // namespace baton::rpc
