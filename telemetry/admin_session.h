// One connection of the admin server. Only admin_session.cc includes Beast, which takes long to compile.
#ifndef BATON_TELEMETRY_ADMIN_SESSION_H_
#define BATON_TELEMETRY_ADMIN_SESSION_H_

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "telemetry/admin_types.h"
#include "telemetry/allowed_hosts.h"

namespace baton::telemetry {

struct AdminRoute {
  // One of the two is set.
  AdminHandler handler = nullptr;
  EventStreamHandler stream_handler = nullptr;
  std::string content_security_policy = kStrictContentSecurityPolicy;
};

// What all connections of a server share. The server's thread uses it; other threads read the atomics.
struct AdminShared {
  explicit AdminShared(AdminServerOptions server_options)
      : options(std::move(server_options)), hosts(options.bind, options.hosts) {}

  const AdminServerOptions options;
  const AllowedHosts hosts;
  std::map<std::string, AdminRoute, std::less<>> routes = {};
  // How often any connection has begun to wait for a request.
  uint64_t waits = 0;
  std::atomic<uint64_t> requests = 0;
  std::atomic<size_t> connections = 0;
  std::atomic<size_t> event_streams = 0;
  std::atomic<uint64_t> event_bytes = 0;
};

// | phase | begins when | ends by |
// |---|---|---|
// | idle | the connection is new, or a response is written | the first byte; idle time-out; EOF |
// | header | a byte has come | a request; header time-out; EOF |
// | response | a request or what is none has been read | the response is written; write time-out |
// | events | a request for events | the viewer leaves; a write times out; the writer closes the stream |
// | lingering | the response was the last one | EOF; a second; a bound of bytes |
//
// The server may close it in every phase. Used by the server's thread.
class AdminSession {
 public:
  virtual ~AdminSession() = default;
  virtual void Start() = 0;
  // Closes the connection at once. `on_closed` runs now, unless it has already.
  virtual void Close() = 0;
  // The connection does nothing for anybody: it is idle, in a header or lingering. Its number grows with each wait.
  // 0: it is busy.
  virtual uint64_t waiting_since() const = 0;
};

// `shared` outlives the session. `on_closed` runs once.
std::shared_ptr<AdminSession> MakeAdminSession(boost::asio::ip::tcp::socket socket, AdminShared& shared,
                                               std::function<void(AdminSession&)> on_closed);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_ADMIN_SESSION_H_
