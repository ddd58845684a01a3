// One connection of the gateway's HTTP server.
#ifndef BATON_GATEWAY_HTTP_SESSION_H_
#define BATON_GATEWAY_HTTP_SESSION_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gateway/http_stream.h"
#include "gateway/http_types.h"
#include "telemetry/allowed_hosts.h"

namespace baton::gateway {

// What all connections of a server share. The server's thread uses it; other threads read the atomics.
struct HttpShared {
  explicit HttpShared(HttpServerOptions server_options) : options(std::move(server_options)) {}

  const HttpServerOptions options;
  // Exchanges, which other threads may hold longer than the server, post to it.
  const std::shared_ptr<boost::asio::io_context> io = std::make_shared<boost::asio::io_context>(1);
  // Path -> method -> handler.
  std::map<std::string, std::map<std::string, HttpHandler, std::less<>>, std::less<>> routes = {};
  // Unset: the server may be asked by every name.
  std::optional<telemetry::AllowedHosts> hosts = std::nullopt;
  // How often any connection has begun to wait for a request.
  uint64_t waits = 0;
  // What the requests whose bodies are being read may have in all.
  size_t body_bytes = 0;
  std::atomic<bool> accepts = true;
  std::atomic<uint64_t> requests = 0;
  std::atomic<size_t> connections = 0;
  std::atomic<size_t> exchanges = 0;
};

// | phase | begins when | ends by |
// |---|---|---|
// | handshake | the connection is new | it is over, or fails; handshake time-out; EOF |
// | idle | the handshake or a response is over | the first byte; idle time-out; EOF |
// | header | a byte has come | a header; header time-out; EOF |
// | body | the request may have one, and it has | its last byte; body time-out; EOF |
// | exchange | the handler has the request, or it is refused | response over; client leaves; write time-out; Abort |
// | lingering | the response was the last one | EOF; a second; a bound of bytes |
//
// The server may close it in every phase. What a client sends during an exchange waits for the end of it, at most
// kMaxPipelinedBytes. Without TLS the handshake is over at once. Used by the server's thread.
class HttpSession {
 public:
  virtual ~HttpSession() = default;
  virtual void Start() = 0;
  // Closes the connection at once, and ends its exchange with `why`. `on_closed` runs now, unless it has already.
  virtual void Close(const absl::Status& why) = 0;
  // The connection does nothing for anybody: it is in its handshake, idle, in a header or lingering. Its number grows
  // with each wait. 0: it is busy.
  virtual uint64_t waiting_since() const = 0;
};

// `shared` outlives the session. `on_closed` runs once.
std::shared_ptr<HttpSession> MakeHttpSession(std::shared_ptr<HttpStream> stream, HttpShared& shared,
                                             std::function<void(HttpSession&)> on_closed);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_SESSION_H_
