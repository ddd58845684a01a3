// The admin port of a process: metrics, and whether it lives and can serve. It answers from the first moment on, while
// the model is still loaded.
#ifndef BATON_CLI_ADMIN_PORT_H_
#define BATON_CLI_ADMIN_PORT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/registry.h"
#include "telemetry/admin_server.h"
#include "telemetry/metrics.h"

namespace baton::cli {

struct AdminFlags {
  // A port, 0 for any free one, or "off". Empty: the default of the process.
  std::string port;
  // Where it listens; empty: where the process does.
  std::string bind;
  // Names that the Host of a request may have besides addresses.
  std::vector<std::string> hosts;
};

// --admin-port, --admin-bind, --admin-hosts. `default_port` is what the help shows.
void AddAdminFlags(CLI::App& app, AdminFlags& flags, const std::string& default_port);

// Used by the main thread; its routes run on the server's.
class AdminPort {
 public:
  // What the process says of itself. Thread-safe, quick.
  using Probe = std::function<absl::Status()>;
  using Source = std::shared_ptr<prometheus::Collectable>;

  // `role` names the process in its metrics. `default_port` applies where `flags` name none.
  AdminPort(const AdminFlags& flags, const std::string& bind, int default_port, const std::string& role);
  ~AdminPort() { Stop(); }

  // Null when the port is off: then nothing below does anything, and there is nothing to add routes to.
  telemetry::AdminServer* server() { return server_.get(); }
  // Listens. The process counts as alive and as not ready until SetProbes.
  absl::Status Start();
  // host:port; empty when it is off.
  std::string address() const;

  // What /metrics says, whether the port is on or off. Thread-safe.
  std::string Metrics() const ABSL_LOCKS_EXCLUDED(mutex_);
  void SetBuildInfo(telemetry::BuildInfo info);
  void SetProbes(Probe healthy, Probe ready) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddSources(std::vector<Source> sources) ABSL_LOCKS_EXCLUDED(mutex_);
  // What probes and sources refer to may end after this. Idempotent.
  void Stop();

 private:
  std::vector<Source> Sources() const ABSL_LOCKS_EXCLUDED(mutex_);
  telemetry::AdminResponse Answer(const Probe& probe) const;

  const std::string role_;
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  mutable absl::Mutex mutex_;
  Probe healthy_ ABSL_GUARDED_BY(mutex_);
  Probe ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<Source> sources_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<telemetry::AdminServer> server_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_ADMIN_PORT_H_
