// Starts the processes of a local cluster, restarts those that end, and ends them in order.
#ifndef BATON_CLI_SUPERVISOR_H_
#define BATON_CLI_SUPERVISOR_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/child_process.h"
#include "common/clock.h"

namespace baton::cli {

struct WorkerCommand {
  // "prefill-worker", "decode-worker" or "mixed-worker".
  std::string role;
  std::vector<std::string> args;
};

struct SupervisorOptions {
  std::vector<std::string> router_args;
  // Port 0 means any free one. A restarted router then gets the port that the first one chose.
  std::string bind;
  int grpc_port = 0;
  std::vector<WorkerCommand> workers;
};

// Only the main thread may use it.
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options) : options_(std::move(options)) {}

  // Returns when every worker has joined the router. ABORTED when a child ended and has printed the reason itself.
  absl::Status Start();
  // host:port of the router.
  const std::string& address() const { return address_; }
  // Restarts children that end, with back-off, until SIGINT or SIGTERM arrives.
  void Watch();
  // Ends the router first, so that running requests can finish, and then the workers. Kills whoever takes too long.
  void Stop();

 private:
  // -1 for the router; for a worker its index in options_.workers.
  struct Slot {
    int index = -1;
    std::optional<ChildProcess> child;
    int failures = 0;
    TimeNs started = 0;
    TimeNs restart_at = 0;
  };

  std::vector<std::string> Args(int index) const;
  absl::Status Launch(Slot& slot);
  static absl::Status WaitReady(Slot& slot, std::string& address);
  absl::Status WaitForWorkers();
  void Check(Slot& slot);

  const SupervisorOptions options_;
  std::string address_;
  std::vector<Slot> slots_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_SUPERVISOR_H_
