// What every long-running process of ours does: it says that it is ready, waits for its end and listens on a port.
#ifndef BATON_CLI_PROCESS_H_
#define BATON_CLI_PROCESS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::cli {

// Reduces gRPC's own log to the reasons why it ends the process: our errors are one line each. GRPC_VERBOSITY in the
// environment brings the rest back. Call it before any other function of gRPC.
void QuietGrpc();
// Leaves SIGINT and SIGTERM to WaitForSignal. Call it before the first thread starts.
void BlockSignals();
// Returns when SIGINT or SIGTERM arrives.
void WaitForSignal();
// Asks the kernel to kill this process when its parent ends. For children of a supervisor.
void DieWithParent();

// One line on stdout: `ready {"grpc": "127.0.0.1:50051"}`.
void PrintReady(const std::string& grpc_address);

// One line on stderr.
void PrintError(const absl::Status& status);
// Prints an error, if `status` is one, and returns the command's exit code.
int Report(const absl::Status& status);

struct GrpcServer {
  std::unique_ptr<grpc::Server> server;
  // host:port at which others reach the server.
  std::string address;
};

struct GrpcServerOptions {
  std::string bind;
  int port = 0;
  std::vector<grpc::Service*> services;
  // Full names of services that the health service answers for, besides the server as a whole.
  std::vector<std::string> health_names;
  // 0 allows the largest message that our own processes send each other.
  int max_receive_bytes = 0;
};

// Adds the health and reflection services. UNAVAILABLE, naming the port, when the port is taken.
absl::StatusOr<GrpcServer> StartGrpcServer(const GrpcServerOptions& options);

}  // namespace baton::cli

#endif  // BATON_CLI_PROCESS_H_
