#include "cli/chat_interrupts.h"

#include <pthread.h>

#include <cstdio>
#include <thread>

#include "cli/interrupt.h"
#include "cli/line_editor.h"

namespace baton::cli {

ChatInterrupts& ChatInterrupts::Start() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Its thread never ends.
  static auto* interrupts = new ChatInterrupts;
  // It takes no other signal, because one that the line editor waits for must interrupt the thread of the editor.
  sigset_t all;
  sigfillset(&all);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread([signals] { interrupts->Take(signals); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return *interrupts;
}

void ChatInterrupts::Begin() {
  is_stopped_ = false;
  is_busy_ = true;
}

void ChatInterrupts::Take(const sigset_t& signals) {
  while (true) {
    int signal_number = 0;
    if (sigwait(&signals, &signal_number) != 0) continue;
    if (signal_number == SIGTERM) {
      RestoreTerminal();
      pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
      EndBySignal(SIGTERM);
    }
    OnInterrupt();
  }
}

void ChatInterrupts::OnInterrupt() {
  if (is_busy_) {
    is_stopped_ = true;
    canceller_.Cancel();
    return;
  }
  is_cleared_ = true;
  if (const char* const hint = hint_; hint != nullptr) std::fputs(hint, stderr);
}

}  // namespace baton::cli
