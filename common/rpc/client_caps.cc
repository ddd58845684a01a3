#include "common/rpc/client_caps.h"

namespace baton::rpc {

void CapClients(grpc::ServerBuilder& builder, const ClientCaps& caps) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, caps.streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, caps.idle_ms);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, caps.handshake_ms);
  grpc::ResourceQuota quota("clients");
  quota.Resize(caps.grpc_memory_bytes).SetMaxThreads(caps.grpc_threads);
  builder.SetResourceQuota(quota);
}

}  // namespace baton::rpc
