// What every long-running process of ours does: says that it is ready, waits for its end, listens on a port.
#ifndef BATON_CLI_PROCESS_H_
#define BATON_CLI_PROCESS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::cli {

// Errors are ours to tell, in one line: gRPC then logs only why it ends the process. The environment's GRPC_VERBOSITY
// brings the rest back. Before the first call of gRPC.
void QuietGrpc();
// Before the first thread: SIGINT and SIGTERM are taken by WaitForSignal alone.
void BlockSignals();
// Returns when SIGINT or SIGTERM came.
void WaitForSignal();
// The kernel kills this process when the parent ends. For children of a supervisor.
void DieWithParent();

// One line on stdout: `ready {"grpc": "127.0.0.1:50051"}`.
void PrintReady(const std::string& grpc_address);

// One line on stderr.
void PrintError(const absl::Status& status);
// A command's exit code; an error is printed.
int Report(const absl::Status& status);

struct GrpcServer {
  std::unique_ptr<grpc::Server> server;
  // host:port that others can reach.
  std::string address;
};

struct GrpcServerOptions {
  std::string bind;
  int port = 0;
  std::vector<grpc::Service*> services;
  // Full names that the health service answers for, besides the server as a whole.
  std::vector<std::string> health_names;
  // 0: as large as messages between our own processes get.
  int max_receive_bytes = 0;
};

// Health and reflection come with it. UNAVAILABLE when the port is taken, saying which.
absl::StatusOr<GrpcServer> StartGrpcServer(const GrpcServerOptions& options);

}  // namespace baton::cli

#endif  // BATON_CLI_PROCESS_H_
