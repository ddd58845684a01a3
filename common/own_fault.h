// The fault of its own that a process dies of: a bad access, an illegal instruction, a failed check. A signal from
// another process is none. The thread that dies waits a moment, so that another thread can tell the world why.
#ifndef BATON_COMMON_OWN_FAULT_H_
#define BATON_COMMON_OWN_FAULT_H_

#include <cstdint>
#include <optional>
#include <string>

namespace baton {

struct OwnFault {
  // SIGSEGV, SIGABRT, ...
  int signal = 0;
  // The thread that died had called ComputeOnThisThread.
  bool computing = false;
};

// From now on a fault is kept for CurrentFault until AllowDeath, or for kMaxLastWordsMs, before the signal does what it
// does by default. Call it once, before any other thread starts.
void WatchForFaults();
inline constexpr int64_t kMaxLastWordsMs = 300;

// What this thread dies of may be the fault of those that the process computes for. Gives the thread a stack for its
// signals, so that an overflow of its own stack is told too. It may be called again.
void ComputeOnThisThread();

// Any thread: what the process is dying of.
std::optional<OwnFault> CurrentFault();
// The world knows. Any thread.
void AllowDeath();

// "SIGSEGV", or "signal 35" where it has no name.
std::string SignalName(int signal);

}  // namespace baton

#endif  // BATON_COMMON_OWN_FAULT_H_
