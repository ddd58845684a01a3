// The HTTP/1.1 server of a process's admin port: metrics, health and, on the router, the dashboard. It serves GET and
// HEAD and nothing else, and only under names that its owner expects, so that no web page can reach it by DNS
// rebinding.
#ifndef BATON_TELEMETRY_ADMIN_SERVER_H_
#define BATON_TELEMETRY_ADMIN_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "telemetry/admin_types.h"

namespace baton::telemetry {

struct AdminServerStats {
  uint64_t requests = 0;
  size_t connections = 0;
  size_t event_streams = 0;
  // What was written to event streams, since the process began.
  uint64_t event_bytes = 0;
};

class AdminServer {
 public:
  explicit AdminServer(AdminServerOptions options);
  // Stops the server.
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // Before Start. A path is registered once; requests match it exactly.
  void AddRoute(std::string path, AdminHandler handler,
                std::string content_security_policy = kStrictContentSecurityPolicy);
  // Server-sent events. A request beyond `max_event_streams` of the whole server gets 503.
  void AddEventStream(std::string path, EventStreamHandler handler);

  // Listens and starts the thread. INVALID_ARGUMENT for an address that is not ours, UNAVAILABLE for a port that is
  // taken; both name the flag. Once.
  absl::Status Start();
  // Closes all connections at once and ends the thread. Event streams that somebody keeps are closed. Not from a
  // handler.
  void Stop();

  // After Start. Others reach the server at this host:port, as far as `bind` allows.
  std::string address() const;
  int port() const;

  // Thread-safe.
  AdminServerStats stats() const;
  // CPU time of the thread, handlers included. Thread-safe.
  int64_t cpu_ns() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_ADMIN_SERVER_H_
