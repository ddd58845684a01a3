#include "telemetry/http_listener.h"

#include <chrono>
#include <utility>

#include "absl/strings/strip.h"
#include "common/rpc/listen_error.h"

namespace baton::telemetry {
namespace {

// How long accepting pauses when the process has no descriptor left.
constexpr int64_t kAcceptPauseMs = 100;

}  // namespace

using boost::asio::ip::tcp;
using boost::system::error_code;

absl::Status HttpListener::Listen(const HttpListenerOptions& options) {
  absl::string_view host = options.bind;
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  error_code error;
  tcp::resolver resolver(acceptor_.get_executor());
  const auto found = resolver.resolve(std::string(host), std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (!error) {
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    Close();
    return rpc::ExplainListenError(options.bind, options.port, options.port_flag, options.bind_flag);
  }
  const tcp::endpoint local = acceptor_.local_endpoint();
  port_ = local.port();
  is_loopback_ = local.address().is_loopback();
  return absl::OkStatus();
}

void HttpListener::Accept(OnConnection on_connection) {
  on_connection_ = std::move(on_connection);
  AcceptNext();
}

void HttpListener::Close() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

void HttpListener::AcceptNext() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (error == boost::asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (error) return AcceptLater();
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    on_connection_(std::move(socket));
    AcceptNext();
  });
}

void HttpListener::AcceptLater() {
  pause_.expires_after(std::chrono::milliseconds(kAcceptPauseMs));
  pause_.async_wait([this](error_code error) {
    if (!error) AcceptNext();
  });
}

}  // namespace baton::telemetry
