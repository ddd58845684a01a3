// A child that runs another command of this binary and says `ready {...}` on its stdout.
#ifndef BATON_CLI_CHILD_PROCESS_H_
#define BATON_CLI_CHILD_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/process.h"

namespace baton::cli {

// Used by one thread. The destructor kills the child and reaps it.
class ChildProcess {
 public:
  // Starts `baton ARGS`. Only the main thread may call it, because the child is killed when
  // the thread that made it ends.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& args);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }

  // Reads what the child has written, without waiting; the addresses in its ready line once that has come.
  std::optional<ReadyAddresses> PollReady();
  // The child's exit code, or 128 plus the number of the signal that ended it. None while it runs.
  std::optional<int> Poll();
  // Whether a signal or a debugger has stopped the child.
  bool IsStopped() const;
  void Signal(int signal_number) const;
  // False when the child still runs after the timeout.
  bool WaitExit(int64_t timeout_ms);

 private:
  ChildProcess(pid_t pid, int stdout_fd) : pid_(pid), stdout_fd_(stdout_fd) {}
  void Kill();

  pid_t pid_ = -1;
  int stdout_fd_ = -1;
  // What the child has written since its last whole line.
  std::string line_;
  std::optional<int> exit_code_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_CHILD_PROCESS_H_
