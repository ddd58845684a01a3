#include "cli/process.h"

#include <grpc/support/log.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "cli/options.h"

namespace baton::cli {
namespace {

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

void LogAssertion(gpr_log_func_args* line) {
  if (!absl::StartsWith(line->message, "assertion failed")) return;
  std::fprintf(stderr, "baton: gRPC, %s:%d: %s\n", line->file, line->line, line->message);
}

}  // namespace

void QuietGrpc() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(&LogAssertion);
}

void BlockSignals() {
  const sigset_t signals = EndSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

void WaitForSignal() {
  const sigset_t signals = EndSignals();
  int signal_number = 0;
  sigwait(&signals, &signal_number);
}

void PrintReady(const std::string& grpc_address) {
  std::printf("ready {\"grpc\": \"%s\"}\n", grpc_address.c_str());
  std::fflush(stdout);
}

void PrintError(const absl::Status& status) {
  std::fprintf(stderr, "baton: %s\n", std::string(status.message()).c_str());
}

int Report(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  PrintError(status);
  return kExitFailed;
}

}  // namespace baton::cli
