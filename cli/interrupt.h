// Lets a command finish its work early, and report it, when the user presses Ctrl-C.
#ifndef BATON_CLI_INTERRUPT_H_
#define BATON_CLI_INTERRUPT_H_

#include <signal.h>

#include <functional>
#include <thread>

namespace baton::cli {

// While this object lives, the first SIGINT or SIGTERM calls `on_signal`, on a thread of its own, instead of ending the
// process. A second one ends the process at once. A signal that the process was started to ignore stays ignored. A
// process has one such object at a time, made and destroyed by the same thread.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> on_signal);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // 0 when none has come.
  int signal_number() const;

 private:
  void AwaitSignal();

  const std::function<void()> on_signal_;
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
  std::thread thread_;
};

// Ends the process as the signal itself would have, so that a shell sees 128 + signal_number and ends its loop. What
// streams hold is written before.
[[noreturn]] void EndBySignal(int signal_number);

}  // namespace baton::cli

#endif  // BATON_CLI_INTERRUPT_H_
