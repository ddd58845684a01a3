#include "gateway/http_server.h"

#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "gateway/http_session.h"
#include "telemetry/http_listener.h"

namespace baton::gateway {

using boost::asio::ip::tcp;

namespace {

// What the system may hold of a response that its client does not read.
constexpr int kSocketSendBytes = 128 << 10;

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(HttpServerOptions options) : shared_(std::move(options)) {}

  HttpShared& shared() { return shared_; }
  absl::Status Start();
  void StopAccepting();
  void Stop();
  int port() const { return listener_.port(); }

 private:
  void Admit(tcp::socket socket);
  std::shared_ptr<HttpStream> MakeStream(tcp::socket socket);
  // Makes room for a connection; false when every connection is busy.
  bool MakeRoom();
  void CloseWaiting();

  HttpShared shared_;
  telemetry::HttpListener listener_{*shared_.io};
  std::map<HttpSession*, std::shared_ptr<HttpSession>> sessions_;
  std::thread thread_;
};

absl::Status HttpServer::Impl::Start() {
  BATON_CHECK(!thread_.joinable());
  const HttpServerOptions& options = shared_.options;
  BATON_RETURN_IF_ERROR(listener_.Listen(
      {.bind = options.bind, .port = options.port, .port_flag = options.port_flag, .bind_flag = options.bind_flag}));
  // A page that a browser on this machine shows may come from a name that its owner has led to loopback. The browser
  // then names that host. TLS needs no such check, because that name is not in our certificate.
  if (listener_.is_loopback() && !options.tls_context) shared_.hosts.emplace(options.bind, options.hosts);
  listener_.Accept([this](tcp::socket socket) { Admit(std::move(socket)); });
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "baton-gateway");
    shared_.io->run();
  });
  return absl::OkStatus();
}

void HttpServer::Impl::StopAccepting() {
  if (!shared_.accepts.exchange(false)) return;
  boost::asio::post(*shared_.io, [this] {
    listener_.Close();
    CloseWaiting();
  });
}

void HttpServer::Impl::CloseWaiting() {
  std::vector<std::shared_ptr<HttpSession>> waiting;
  for (const auto& [session, owner] : sessions_) {
    if (session->waiting_since() > 0) waiting.push_back(owner);
  }
  for (const auto& session : waiting) session->Close(absl::CancelledError("the server ends"));
}

void HttpServer::Impl::Stop() {
  if (!thread_.joinable()) return;
  shared_.accepts = false;
  shared_.io->stop();
  thread_.join();
  // Nobody else uses the sessions now.
  listener_.Close();
  while (!sessions_.empty()) {
    const std::shared_ptr<HttpSession> session = sessions_.begin()->second;
    session->Close(absl::CancelledError("the server ends"));
  }
  // What still waits may hold exchanges, which hold the queue that it waits in. Nothing of it finds a session any more.
  shared_.io->restart();
  shared_.io->poll();
}

bool HttpServer::Impl::MakeRoom() {
  if (sessions_.size() < shared_.options.max_connections) return true;
  const std::shared_ptr<HttpSession> longest = telemetry::LongestWaiting(sessions_);
  if (longest == nullptr) return false;
  longest->Close(absl::OkStatus());
  return true;
}

std::shared_ptr<HttpStream> HttpServer::Impl::MakeStream(tcp::socket socket) {
  boost::system::error_code ignored;
  socket.set_option(boost::asio::socket_base::send_buffer_size(kSocketSendBytes), ignored);
  if (!shared_.options.tls_context) return MakePlainStream(std::move(socket));
  return MakeTlsStream(std::move(socket), *shared_.options.tls_context());
}

void HttpServer::Impl::Admit(tcp::socket socket) {
  // A connection that finds no room is closed with its socket.
  if (!MakeRoom()) return;
  const auto on_closed = [this](HttpSession& closed) {
    sessions_.erase(&closed);
    shared_.connections.store(sessions_.size(), std::memory_order_relaxed);
  };
  const std::shared_ptr<HttpSession> session = MakeHttpSession(MakeStream(std::move(socket)), shared_, on_closed);
  sessions_.emplace(session.get(), session);
  shared_.connections.store(sessions_.size(), std::memory_order_relaxed);
  session->Start();
}

HttpServer::HttpServer(HttpServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::AddRoute(std::string method, std::string path, HttpHandler handler) {
  BATON_CHECK(impl_->shared().routes[std::move(path)].emplace(std::move(method), std::move(handler)).second);
}

absl::Status HttpServer::Start() { return impl_->Start(); }

void HttpServer::StopAccepting() { impl_->StopAccepting(); }

void HttpServer::Stop() { impl_->Stop(); }

std::string HttpServer::address() const { return absl::StrCat(impl_->shared().options.bind, ":", impl_->port()); }

int HttpServer::port() const { return impl_->port(); }

HttpServerStats HttpServer::stats() const {
  const HttpShared& shared = impl_->shared();
  return {.requests = shared.requests.load(std::memory_order_relaxed),
          .connections = shared.connections.load(std::memory_order_relaxed),
          .exchanges = shared.exchanges.load(std::memory_order_relaxed)};
}

}  // namespace baton::gateway
