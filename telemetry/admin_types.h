// Requests and responses of the admin server, and its bounds.
#ifndef BATON_TELEMETRY_ADMIN_TYPES_H_
#define BATON_TELEMETRY_ADMIN_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/event_stream.h"

namespace baton::telemetry {

// Connections at a time. A further one takes the place of the connection that has waited longest for a request.
inline constexpr size_t kMaxAdminConnections = 128;
// The request line and all header fields together.
inline constexpr size_t kMaxAdminHeaderBytes = size_t{16} << 10;
// The time from the first byte of a request to the end of its header.
inline constexpr int64_t kAdminHeaderTimeoutMs = 10'000;
// The time between two requests of a connection. It is longer than the interval at which Prometheus usually scrapes.
inline constexpr int64_t kAdminIdleTimeoutMs = 120'000;
// The time that a client has to take a response. On an event stream it applies to every write.
inline constexpr int64_t kAdminWriteTimeoutMs = 30'000;

struct AdminRequest {
  // Without the query, and not decoded.
  std::string_view path;
  // What follows "?"; empty when there is none.
  std::string_view query;
};

struct AdminResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  // The server itself adds Date, Content-Length, Connection and the headers of security.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Runs on the server's thread and must be quick: it neither blocks nor computes for more than a few milliseconds.
using AdminHandler = std::function<AdminResponse(const AdminRequest&)>;
// The same for a stream of events, into which it may write at once, and which any thread may keep and write to.
using EventStreamHandler = std::function<void(std::shared_ptr<EventStream>)>;

// A page with this policy may load nothing, and nobody may frame it.
inline constexpr char kStrictContentSecurityPolicy[] = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'";

struct AdminServerOptions {
  // An address, with brackets where it is an IPv6 address, or a name.
  std::string bind = "127.0.0.1";
  // 0: any free one.
  int port = 0;
  // Host names that requests may have in `Host` besides literal addresses, localhost and `bind`. "*" allows all.
  std::vector<std::string> hosts = {};
  // Flags that the error names when the server cannot listen.
  std::string port_flag = "--admin-port";
  std::string bind_flag = "--bind";
  size_t max_event_streams = 8;
  // What an event stream may hold that its client has not read. The stream is closed beyond it.
  size_t max_unread_event_bytes = size_t{8} << 20;
  size_t max_connections = kMaxAdminConnections;
  int64_t header_timeout_ms = kAdminHeaderTimeoutMs;
  int64_t idle_timeout_ms = kAdminIdleTimeoutMs;
  int64_t write_timeout_ms = kAdminWriteTimeoutMs;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_ADMIN_TYPES_H_
