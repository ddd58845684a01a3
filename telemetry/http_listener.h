// Accepts the connections of an HTTP server: of the admin server and of the gateway.
#ifndef BATON_TELEMETRY_HTTP_LISTENER_H_
#define BATON_TELEMETRY_HTTP_LISTENER_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace baton::telemetry {

struct HttpListenerOptions {
  // An address, with brackets where it is an IPv6 address, or a name.
  std::string bind;
  // 0: any free one.
  int port = 0;
  // Flags that the error names when the address cannot be had.
  std::string port_flag;
  std::string bind_flag;
};

// The session of a map by its address that has waited longest for a request, by its waiting_since(); null when all are
// busy. A server that is full closes it for the sake of a new connection.
template <typename Sessions>
typename Sessions::mapped_type LongestWaiting(const Sessions& sessions) {
  typename Sessions::mapped_type longest = nullptr;
  for (const auto& [address, session] : sessions) {
    const uint64_t since = session->waiting_since();
    if (since > 0 && (longest == nullptr || since < longest->waiting_since())) longest = session;
  }
  return longest;
}

// Used by the thread of `io`, or before that runs.
class HttpListener {
 public:
  using OnConnection = std::function<void(boost::asio::ip::tcp::socket)>;

  // `io` outlives it.
  explicit HttpListener(boost::asio::io_context& io) : acceptor_(io), pause_(io) {}

  // INVALID_ARGUMENT for an address that is not ours, UNAVAILABLE for a port that is taken. Once.
  absl::Status Listen(const HttpListenerOptions& options);
  // Hands over every connection that comes, without delay for small messages.
  void Accept(OnConnection on_connection);
  // Nobody can connect any more.
  void Close();

  // After Listen.
  int port() const { return port_; }
  // Whether the address is one that only this machine reaches.
  bool is_loopback() const { return is_loopback_; }

 private:
  void AcceptNext();
  void AcceptLater();

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  OnConnection on_connection_;
  int port_ = 0;
  bool is_loopback_ = false;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_HTTP_LISTENER_H_
