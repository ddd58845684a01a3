#include "common/own_fault.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr std::array kFaultSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr size_t kSignalStackBytes = 64u << 10;
constexpr int64_t kPollNs = 1'000'000;

// Lock-free, because a signal's handler uses them.
std::atomic<int> fault_signal{0};
std::atomic<bool> fault_computing{false};
std::atomic<bool> death_allowed{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

class SignalStack {
 public:
  SignalStack() : memory_(new std::byte[kSignalStackBytes]) {
    stack_t stack = {};
    stack.ss_sp = memory_.get();
    stack.ss_size = kSignalStackBytes;
    sigaltstack(&stack, nullptr);
  }
  ~SignalStack() {
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
};

thread_local bool computing = false;
thread_local std::unique_ptr<SignalStack> signal_stack;

// The kernel reports what a thread did, and abort() sends the signal to its own thread. All else comes from outside.
bool IsOwn(const siginfo_t& info) { return info.si_code > 0 || (info.si_code == SI_TKILL && info.si_pid == getpid()); }

// Only calls that are safe in a signal's handler.
void OnFault(int number, siginfo_t* info, void* /*context*/) {
  if (IsOwn(*info)) {
    int none = 0;
    // Before the signal, by which CurrentFault knows that there is one. A second thread that dies may change it: the
    // process then dies of both.
    if (computing) fault_computing.store(true);
    fault_signal.compare_exchange_strong(none, number);
    constexpr timespec kPoll = {.tv_sec = 0, .tv_nsec = kPollNs};
    for (int64_t waited_ns = 0; waited_ns < kMaxLastWordsMs * 1'000'000 && !death_allowed.load();
         waited_ns += kPollNs) {
      nanosleep(&kPoll, nullptr);
    }
  }
  // Blocked while the handler runs, it kills the process when the handler returns.
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

void WatchForFaults() {
  struct sigaction action = {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int number : kFaultSignals) sigaction(number, &action, nullptr);
}

void ComputeOnThisThread() {
  computing = true;
  stack_t now = {};
  sigaltstack(nullptr, &now);
  // A sanitizer may have given it one.
  if ((now.ss_flags & SS_DISABLE) != 0) signal_stack = std::make_unique<SignalStack>();
}

std::optional<OwnFault> CurrentFault() {
  const int number = fault_signal.load();
  if (number == 0) return std::nullopt;
  return OwnFault{.signal = number, .computing = fault_computing.load()};
}

void AllowDeath() { death_allowed.store(true); }

std::string SignalName(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

}  // namespace baton
