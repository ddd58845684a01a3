// Requests and responses of the gateway's HTTP server, and its bounds.
#ifndef BATON_GATEWAY_HTTP_TYPES_H_
#define BATON_GATEWAY_HTTP_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/limits.h"

// OpenSSL's SSL_CTX.
struct ssl_ctx_st;

namespace baton::gateway {

// The request line and all header fields together.
inline constexpr size_t kMaxHttpHeaderBytes = size_t{32} << 10;
// The body of a request. JSON says a prompt in more bytes than it has.
inline constexpr size_t kMaxHttpBodyBytes = size_t{2} * kMaxMessageBytes;
// The time from a connection's beginning to the end of its handshake, where the server speaks TLS.
inline constexpr int64_t kHttpHandshakeTimeoutMs = 10'000;
// The time from the first byte of a request to the end of its header, and from there to the end of its body.
inline constexpr int64_t kHttpHeaderTimeoutMs = 10'000;
inline constexpr int64_t kHttpBodyTimeoutMs = 30'000;
// The time between two requests of a connection.
inline constexpr int64_t kHttpIdleTimeoutMs = 120'000;
// The time that a client has to take a piece of a response.
inline constexpr int64_t kHttpWriteTimeoutMs = 30'000;

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// What the certificate of a client says, which the cluster's authority has issued.
struct HttpPeer {
  // Its alternative names that are URIs.
  std::vector<std::string> uris;
};

struct HttpRequest {
  // As it was sent: "GET", "POST".
  std::string method;
  // Without the query, and not decoded.
  std::string path;
  // What follows "?"; empty when there is none.
  std::string query;
  // Names are in small letters. A name that came twice is here twice.
  HttpHeaders headers;
  std::string body;
  // Null: the client has shown no certificate.
  std::shared_ptr<const HttpPeer> peer;

  // All values of a header, whose name is in small letters.
  std::vector<std::string_view> HeaderValues(std::string_view name) const {
    std::vector<std::string_view> values;
    for (const auto& [key, value] : headers) {
      if (key == name) values.emplace_back(value);
    }
    return values;
  }
};

// The server itself adds Date, Content-Length or Transfer-Encoding, Connection and the headers of security.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  HttpHeaders headers = {};
};

// The body of a response that is not known from the beginning, as server-sent events are not. The server asks for the
// next piece once the client has taken the former one, so whatever a slow client does not take waits with the source.
class BodySource {
 public:
  struct Piece {
    // Empty: there is nothing now, and HttpExchange::Wake says when there is.
    std::string text;
    bool is_last = false;
  };

  virtual ~BodySource() = default;
  // Runs on the server's thread and must be quick.
  virtual Piece Next() = 0;
};

// The server's end of one request. Thread-safe, unless a method says otherwise. Exactly one of Respond and Stream
// answers the request, once; when nobody holds the exchange any more, the client of a request without an answer gets a
// 500.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Constant once the handler runs, but for the body, which the handler may move away.
  virtual HttpRequest& request() = 0;

  virtual void Respond(HttpResponse response) = 0;
  // Sends the head of the response at once, without its `body`, and then what `source` gives. The exchange holds the
  // source until the response is over.
  virtual void Stream(HttpResponse head, std::shared_ptr<BodySource> source) = 0;
  // The source of the stream has a piece now.
  virtual void Wake() = 0;
  // Closes the connection at once.
  virtual void Abort() = 0;

  // Runs once on the server's thread when the exchange is over: OK when the whole response was handed to the network,
  // CANCELLED when the client left before, DEADLINE_EXCEEDED when it did not take the response in time, ABORTED after
  // Abort. A server that stops runs it on the thread that stops it. What it holds is dropped then. To be set in the
  // handler, before the exchange is answered.
  virtual void SetOnDone(std::function<void(const absl::Status&)> on_done) = 0;
};

// Runs on the server's thread and must be quick: what costs more than some microseconds runs elsewhere, and answers
// later.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

// Looks at a request of which the header alone has come; a response refuses it, and its body is not read. Runs on the
// server's thread and must be quick.
using HttpAdmission = std::function<std::optional<HttpResponse>(const HttpRequest& head)>;

// The context of the next connection's handshake. Runs on the server's thread, or before that does.
using HttpTlsContext = std::function<std::shared_ptr<ssl_ctx_st>()>;

// Makes the response to a request that the server itself refuses, in the form of the API that `path` belongs to.
using HttpRefusalMaker = std::function<HttpResponse(std::string_view path, int status, std::string message)>;

struct HttpServerOptions {
  // An address, with brackets where it is an IPv6 address, or a name.
  std::string bind = "127.0.0.1";
  // 0: any free one.
  int port = 0;
  // Flags that the error names when the server cannot listen.
  std::string port_flag = "--http-port";
  std::string bind_flag = "--bind";
  // Connections at a time. A further one takes the place of the connection that has waited longest for a request, or
  // is closed where none waits.
  size_t max_connections = kMaxClientConnections;
  size_t max_body_bytes = kMaxHttpBodyBytes;
  int64_t handshake_timeout_ms = kHttpHandshakeTimeoutMs;
  int64_t header_timeout_ms = kHttpHeaderTimeoutMs;
  int64_t body_timeout_ms = kHttpBodyTimeoutMs;
  int64_t idle_timeout_ms = kHttpIdleTimeoutMs;
  int64_t write_timeout_ms = kHttpWriteTimeoutMs;
  // Names by which a server in plain text on loopback may be asked, besides addresses, localhost and `bind`; "*": all.
  // Other servers may be asked by every name.
  std::vector<std::string> hosts = {};
  // Unset: plain text.
  HttpRefusalMaker make_refusal = nullptr;
  // Unset: the server speaks no TLS.
  HttpTlsContext tls_context = nullptr;
  // Unset: every request is admitted.
  HttpAdmission admit = nullptr;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_TYPES_H_
