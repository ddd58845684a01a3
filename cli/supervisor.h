// Starts the processes of a local cluster, restarts those that end or hang, and ends them in order.
#ifndef BATON_CLI_SUPERVISOR_H_
#define BATON_CLI_SUPERVISOR_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/child_process.h"
#include "cli/restart_policy.h"
#include "cli/status_probe.h"
#include "common/clock.h"
#include "common/rpc/credentials.h"

namespace baton::cli {

struct WorkerCommand {
  // "prefill-worker", "decode-worker" or "mixed-worker".
  std::string role;
  std::vector<std::string> args;
};

struct SupervisorOptions {
  std::vector<std::string> router_args;
  // Port 0 means any free one. A restarted router then gets the ports that the first one chose.
  std::string bind;
  int grpc_port = 0;
  int cluster_port = 0;
  // The router's: a port, or "off". Empty `admin_bind`: that of `bind`.
  std::string admin_port;
  std::string admin_bind;
  // The router's: a port, "off", or empty for what the router makes of it.
  std::string http_port;
  // What the children are told too.
  int64_t drain_timeout_ms = 0;
  std::vector<WorkerCommand> workers;
  // With these the supervisor itself asks the router for its status. Null: plain text. They outlive the supervisor.
  rpc::Credentials* credentials = nullptr;
};

// Carries out what the RestartPolicy of each child decides. Only the main thread may use it.
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options);

  // Returns when every worker has joined the router. ABORTED when a child ended and has printed the reason itself,
  // CANCELLED when SIGINT or SIGTERM came first.
  absl::Status Start();
  // The addresses at which clients can reach the router.
  const ReadyAddresses& router() const { return router_; }
  // Restarts children until SIGINT or SIGTERM comes.
  void Watch();
  // Ends the router first: it knows which requests run, and the workers go on until it has ended. Then it ends the
  // workers. A child that takes longer than the drain time-out and kDrainMarginMs is killed, and the log says so; one
  // that is still loading is killed at once. False when a child had to be killed for its slowness.
  [[nodiscard]] bool Stop();

 private:
  // -1 for the router; for a worker its index in options_.workers.
  struct Slot {
    int index = -1;
    RestartPolicy policy;
    std::optional<ChildProcess> child;
  };

  std::vector<std::string> Args(int index) const;
  const std::string& Name(const Slot& slot) const;
  // One round over all children. While the cluster starts, a child that does not get ready is an error.
  absl::Status Turn();
  absl::Status Check(Slot& slot);
  absl::Status OnEnd(Slot& slot, int exit_code);
  void OnReady(Slot& slot, ReadyAddresses addresses);
  absl::Status Launch(Slot& slot);
  absl::Status Kill(Slot& slot);
  // SIGTERM to all children of one kind, the router or the workers; kills those that still run at `deadline`. False
  // when there was one.
  bool End(bool router, TimeNs deadline);
  // Also of children that it did not start: process 1 of a container inherits all orphans.
  void ReapEnded();
  ChildHealth HealthOf(const Slot& slot) const;
  bool AllJoined() const;

  const SupervisorOptions options_;
  std::vector<Slot> slots_;
  ReadyAddresses router_;
  // Every worker has joined once.
  bool started_ = false;
  // While the router serves.
  std::optional<StatusProbe> probe_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_SUPERVISOR_H_
