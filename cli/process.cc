#include "cli/process.h"

#include <grpc/support/log.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/heap_trim.h"
#include "cli/options.h"
#include "cli/service_manager.h"
#include "cli/terminal_text.h"
#include "common/log.h"
#include "common/status.h"
#include "common/usable_cores.h"

namespace baton::cli {
namespace {

constexpr char kReady[] = "ready ";

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// What tells the process to end.
struct EndSignal {
  absl::Mutex mutex;
  bool awaited ABSL_GUARDED_BY(mutex) = false;
  // SIGINT or SIGTERM has come.
  bool signalled ABSL_GUARDED_BY(mutex) = false;
  // That, or BeginEnd.
  bool came ABSL_GUARDED_BY(mutex) = false;

  void Come() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (came) return;
    came = true;
    NotifyServiceManager("STOPPING=1\nSTATUS=drains");
  }
};

// Never destroyed, because the thread of the signals uses it to the end.
EndSignal& TheEndSignal() {
  static auto* end = new EndSignal;
  return *end;
}

void TakeSignals() {
  const sigset_t signals = EndSignals();
  EndSignal& end = TheEndSignal();
  while (true) {
    int signal_number = 0;
    if (sigwait(&signals, &signal_number) != 0) continue;
    absl::MutexLock lock(&end.mutex);
    if (end.signalled) {
      spdlog::warn("a second signal came: ending at once, which cuts what is running");
      _exit(kExitFailed);
    }
    if (!end.awaited) _exit(kExitDone);
    end.signalled = true;
    end.Come();
  }
}

void LogAssertion(gpr_log_func_args* line) {
  if (!absl::StartsWith(line->message, "assertion failed")) return;
  std::fprintf(stderr, "baton: gRPC, %s:%d: %s\n", line->file, line->line, line->message);
}

}  // namespace

void QuietGrpc() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(&LogAssertion);
}

void BoundNameLookups() {
  // Every round doubles the time, so that a slow server is waited for as well.
  setenv("RES_OPTIONS", "retrans:1000 retry:4", /*replace=*/0);
}

void BoundHeapArenas() {
  if (std::getenv("MALLOC_ARENA_MAX") != nullptr) return;
  mallopt(M_ARENA_MAX, CountUsableCores());
}

void HandleSignals() {
  const sigset_t signals = EndSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  std::thread(&TakeSignals).detach();
}

void BeginEnd() {
  EndSignal& end = TheEndSignal();
  absl::MutexLock lock(&end.mutex);
  end.Come();
}

void WaitForSignal() {
  HeapTrimPlan plan;
  while (!SignalCame(kHeapLookMs)) LookAtHeap(plan);
}

bool SignalCame(int64_t timeout_ms) {
  EndSignal& end = TheEndSignal();
  absl::MutexLock lock(&end.mutex);
  end.awaited = true;
  return end.mutex.AwaitWithTimeout(absl::Condition(&end.came), absl::Milliseconds(timeout_ms));
}

void PrintReady(const ReadyAddresses& addresses) {
  std::string line = absl::StrCat(kReady, "{\"grpc\": \"", addresses.grpc, "\"");
  if (!addresses.cluster.empty()) absl::StrAppend(&line, ", \"cluster\": \"", addresses.cluster, "\"");
  if (!addresses.admin.empty()) absl::StrAppend(&line, ", \"admin\": \"", addresses.admin, "\"");
  if (!addresses.http.empty()) absl::StrAppend(&line, ", \"http\": \"", addresses.http, "\"");
  std::cout << line << '}' << std::endl;
  NotifyServiceManager(absl::StrCat("READY=1\nSTATUS=serves at ", addresses.grpc));
  // Nobody can learn where to reach this process. It ends in order, and main says why.
  if (!std::cout) kill(getpid(), SIGTERM);
}

std::optional<ReadyAddresses> ParseReady(const std::string& line) {
  if (!absl::StartsWith(line, kReady)) return std::nullopt;
  const auto value = [&line](const std::string& name) {
    const std::string key = absl::StrCat("\"", name, "\": \"");
    const size_t at = line.find(key);
    if (at == std::string::npos) return std::string();
    const size_t begin = at + key.size();
    return line.substr(begin, line.find('"', begin) - begin);
  };
  ReadyAddresses addresses = {
      .grpc = value("grpc"), .cluster = value("cluster"), .admin = value("admin"), .http = value("http")};
  if (addresses.grpc.empty()) return std::nullopt;
  return addresses;
}

void PrintError(const absl::Status& status) {
  // Servers and files have a say in the message.
  std::fprintf(stderr, "baton: %s\n", ForTerminalLine(ToStd(status.message())).c_str());
}

int Report(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  PrintError(status);
  return kExitFailed;
}

}  // namespace baton::cli
