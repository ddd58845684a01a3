// The HTTP/1.1 server of the gateway: requests with bodies, keep-alive and pipelining, responses that stream. It knows
// nothing of what is served.
#ifndef BATON_GATEWAY_HTTP_SERVER_H_
#define BATON_GATEWAY_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gateway/http_types.h"

namespace baton::gateway {

struct HttpServerStats {
  uint64_t requests = 0;
  size_t connections = 0;
  // Requests that wait for the end of their response.
  size_t exchanges = 0;
};

class HttpServer {
 public:
  explicit HttpServer(HttpServerOptions options);
  // Stops the server.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Before Start. A pair of method and path is registered once; requests match it exactly. GET also serves HEAD.
  void AddRoute(std::string method, std::string path, HttpHandler handler);

  // Listens and starts the thread. INVALID_ARGUMENT for an address that is not ours, UNAVAILABLE for a port that is
  // taken; both name the flag. Once.
  absl::Status Start();
  // Takes no more connections and no further requests. Exchanges that run go on. Thread-safe.
  void StopAccepting();
  // Closes all connections at once, ends the exchanges with CANCELLED and ends the thread. Not from a handler.
  void Stop();

  // After Start. Clients reach the server at this host:port, as far as `bind` allows.
  std::string address() const;
  int port() const;

  // Thread-safe.
  HttpServerStats stats() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_SERVER_H_
