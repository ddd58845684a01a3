// What every long-running process of ours does: it says that it is ready, and waits for its end.
#ifndef BATON_CLI_PROCESS_H_
#define BATON_CLI_PROCESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace baton::cli {

// Reduces gRPC's own log to the reasons why it ends the process: our errors are one line each. GRPC_VERBOSITY in the
// environment brings the rest back. Call it before any other function of gRPC.
void QuietGrpc();
// Makes gRPC's resolver ask a name server again after 1 s without an answer, not after 5 s: networks of containers lose
// questions while they change, which is when a process looks for one that has just started anew. RES_OPTIONS in the
// environment counts instead. Call it before any other thread starts.
void BoundNameLookups();
// Lets glibc spread its heap over as many arenas as this process may use cores. By default it makes eight times as
// many, for the cores of the machine, and what one of them has free serves no request of another: a process then grows
// for hours until it has used them all. MALLOC_ARENA_MAX in the environment counts instead. Call it before any other
// thread starts.
void BoundHeapArenas();
// From now on a thread of its own takes SIGINT and SIGTERM. The first of them is left to the two functions below. When
// it comes before one of them was called, the process is still loading, so that it has nothing to finish, and ends at
// once with kExitDone. A second signal ends the process at once with kExitFailed. Call it before any other thread
// starts.
void HandleSignals();
// The process is to end as if the first signal had come, so that the two functions below return. A signal that does
// come later is still the first one: it changes nothing, and only the next ends the process at once. Any thread.
void BeginEnd();
// Returns when SIGINT or SIGTERM has come, or after BeginEnd. Meanwhile it gives free pages of the heap back to the
// system (cli/heap_trim.h).
void WaitForSignal();
// False when nothing of that has happened within the time.
bool SignalCame(int64_t timeout_ms);

// Where a process can be reached, as its ready line says it: host:port.
struct ReadyAddresses {
  std::string grpc;
  // Where workers join; empty: nowhere.
  std::string cluster = {};
  // The admin port; empty: off.
  std::string admin = {};
  // OpenAI's API; empty: off.
  std::string http = {};
};
// One line on stdout: `ready {"grpc": "127.0.0.1:50051"}`, with "cluster", "admin" and "http" where there is one. Where
// it cannot be written, the process gets SIGTERM. A service manager hears it too.
void PrintReady(const ReadyAddresses& addresses);
// None when the line is no ready line.
std::optional<ReadyAddresses> ParseReady(const std::string& line);

// One line on stderr.
void PrintError(const absl::Status& status);
// Prints an error, if `status` is one, and returns the command's exit code.
int Report(const absl::Status& status);

}  // namespace baton::cli

#endif  // BATON_CLI_PROCESS_H_
