// A gRPC server as each of our processes runs one.
#ifndef BATON_COMMON_RPC_GRPC_SERVER_H_
#define BATON_COMMON_RPC_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::rpc {

struct GrpcServer {
  std::unique_ptr<grpc::Server> server;
  // host:port at which others reach the server.
  std::string address;
};

struct GrpcServerOptions {
  std::string bind;
  int port = 0;
  std::vector<grpc::Service*> services = {};
  // Full names of services that the health service answers for, besides the server as a whole.
  std::vector<std::string> health_names = {};
  // 0 allows the largest message that our own processes send each other.
  int max_receive_bytes = 0;
};

// Adds the health and reflection services. UNAVAILABLE, naming the port, when the port is taken.
absl::StatusOr<GrpcServer> StartGrpcServer(const GrpcServerOptions& options);

// Takes no new calls, and cuts those that are still open after `timeout_ms`.
void StopGrpcServer(grpc::Server& server, int64_t timeout_ms);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_GRPC_SERVER_H_
