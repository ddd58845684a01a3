// What every long-running process of ours does: it says that it is ready, and waits for its end.
#ifndef BATON_CLI_PROCESS_H_
#define BATON_CLI_PROCESS_H_

#include <string>

#include "absl/status/status.h"

namespace baton::cli {

// Reduces gRPC's own log to the reasons why it ends the process: our errors are one line each. GRPC_VERBOSITY in the
// environment brings the rest back. Call it before any other function of gRPC.
void QuietGrpc();
// Leaves SIGINT and SIGTERM to WaitForSignal. Call it before the first thread starts.
void BlockSignals();
// Returns when SIGINT or SIGTERM arrives.
void WaitForSignal();

// One line on stdout: `ready {"grpc": "127.0.0.1:50051"}`.
void PrintReady(const std::string& grpc_address);

// One line on stderr.
void PrintError(const absl::Status& status);
// Prints an error, if `status` is one, and returns the command's exit code.
int Report(const absl::Status& status);

}  // namespace baton::cli

#endif  // BATON_CLI_PROCESS_H_
