#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <utility>

#include "common/check.h"

namespace baton::cli {
namespace {

// What the handler, which has no argument of ours, may use.
std::atomic<int> came_signal{0};
std::array<int, 2> interrupt_pipe = {-1, -1};

void WakeInterrupt() {
  const char byte = 0;
  // The pipe has room for the two bytes that are ever written.
  if (write(interrupt_pipe[1], &byte, 1) < 0) return;
}

// Runs in a signal handler: only what is safe there.
void OnInterrupt(int signal_number) {
  const int saved_errno = errno;
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  int none = 0;
  if (came_signal.compare_exchange_strong(none, signal_number)) WakeInterrupt();
  errno = saved_errno;
}

void Install(int signal_number, struct sigaction& old) {
  sigaction(signal_number, nullptr, &old);
  if (old.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = &OnInterrupt;
  action.sa_flags = SA_RESTART;
  sigaction(signal_number, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt(std::function<void()> on_signal) : on_signal_(std::move(on_signal)) {
  came_signal = 0;
  BATON_CHECK(pipe2(interrupt_pipe.data(), O_CLOEXEC) == 0) << errno;
  thread_ = std::thread([this] { AwaitSignal(); });
  Install(SIGINT, old_int_);
  Install(SIGTERM, old_term_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  WakeInterrupt();
  thread_.join();
  for (const int end : interrupt_pipe) close(end);
}

int Interrupt::signal_number() const { return came_signal; }

void Interrupt::AwaitSignal() {
  char byte = 0;
  while (read(interrupt_pipe[0], &byte, 1) < 0 && errno == EINTR) {
  }
  if (came_signal != 0) on_signal_();
}

void EndBySignal(int signal_number) {
  std::cout.flush();
  std::fflush(nullptr);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
  // The signal is blocked.
  _exit(128 + signal_number);
}

}  // namespace baton::cli
