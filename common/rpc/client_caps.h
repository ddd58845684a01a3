// What clients may take of a server beside the requests that they send: connections, streams, time and memory. A server
// for our own processes has no such caps.
#ifndef BATON_COMMON_RPC_CLIENT_CAPS_H_
#define BATON_COMMON_RPC_CLIENT_CAPS_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>

#include "common/limits.h"

namespace baton::rpc {

struct ClientCaps {
  // Beyond it, or with fewer where the process may not have so many descriptors, connections are reset at once.
  int connections = kMaxClientConnections;
  // Beyond it, a client's library holds later calls back until one ends.
  int streams_per_connection = kMaxStreamsPerConnection;
  // A connection without a call is closed after this time, and one that has not introduced itself after this.
  int idle_ms = kMaxIdleConnectionMs;
  int handshake_ms = kMaxHandshakeMs;
  // What gRPC itself holds for all connections: what it has read of messages, and its records of calls. Near the bound
  // it reads no further, closes idle connections and cancels calls.
  size_t grpc_memory_bytes = kMaxGrpcMemoryBytes;
  // gRPC's reflection service keeps a thread for each of its streams. Beyond the bound it refuses them.
  int grpc_threads = kMaxGrpcThreads;
};

void CapClients(grpc::ServerBuilder& builder, const ClientCaps& caps = {});

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CLIENT_CAPS_H_
