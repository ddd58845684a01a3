// What Ctrl-C does in `baton chat`: it stops the answer under way and nothing else.
#ifndef BATON_CLI_CHAT_INTERRUPTS_H_
#define BATON_CLI_CHAT_INTERRUPTS_H_

#include <signal.h>

#include <atomic>

#include "cli/generation_client.h"

namespace baton::cli {

// Thread-safe. A process has one, from Start to its end.
class ChatInterrupts {
 public:
  // Call it before any other thread starts. A thread of its own then takes SIGINT, and SIGTERM, before which it gives
  // the terminal its modes back.
  static ChatInterrupts& Start();

  // From Begin to End, Ctrl-C stops what is under way: it cancels a call that has been given canceller(), and
  // is_stopped is true from then on.
  void Begin();
  void End() { is_busy_ = false; }
  bool is_stopped() const { return is_stopped_; }
  CallCanceller& canceller() { return canceller_; }

  // At a prompt without an editor the terminal itself throws the line away. The hint, which is written then, shows a
  // new prompt.
  void SetPromptHint(const char* hint) { hint_ = hint; }
  // Whether Ctrl-C has come at the prompt since the last call.
  bool TakeCleared() { return is_cleared_.exchange(false); }

 private:
  ChatInterrupts() = default;
  void Take(const sigset_t& signals);
  void OnInterrupt();

  CallCanceller canceller_;
  std::atomic<bool> is_busy_ = false;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> is_cleared_ = false;
  std::atomic<const char*> hint_ = nullptr;
};

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_INTERRUPTS_H_
