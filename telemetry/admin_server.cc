#include "telemetry/admin_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "telemetry/admin_session.h"
#include "telemetry/background_thread.h"
#include "telemetry/http_listener.h"

namespace baton::telemetry {
namespace {

namespace asio = boost::asio;
using boost::asio::ip::tcp;

}  // namespace

class AdminServer::Impl {
 public:
  explicit Impl(AdminServerOptions options) : shared_(std::move(options)) {}

  AdminShared& shared() { return shared_; }
  absl::Status Start();
  void Stop();
  int port() const { return listener_.port(); }
  int64_t cpu_ns() const {
    const BackgroundThread* const thread = started_.load(std::memory_order_acquire);
    return thread == nullptr ? 0 : thread->cpu_ns();
  }

 private:
  void Admit(tcp::socket socket);
  // Makes room for a connection; false when every connection is busy.
  bool MakeRoom();

  AdminShared shared_;
  asio::io_context io_{1};
  HttpListener listener_{io_};
  std::map<AdminSession*, std::shared_ptr<AdminSession>> sessions_;
  std::optional<BackgroundThread> thread_;
  // `thread_` as others see it, among them the thread itself, which may serve before Start has returned.
  std::atomic<const BackgroundThread*> started_ = nullptr;
};

absl::Status AdminServer::Impl::Start() {
  BATON_CHECK(!thread_.has_value());
  const AdminServerOptions& options = shared_.options;
  BATON_RETURN_IF_ERROR(listener_.Listen(
      {.bind = options.bind, .port = options.port, .port_flag = options.port_flag, .bind_flag = options.bind_flag}));
  listener_.Accept([this](tcp::socket socket) { Admit(std::move(socket)); });
  thread_.emplace("baton-admin", [this] { io_.run(); });
  started_.store(&*thread_, std::memory_order_release);
  return absl::OkStatus();
}

void AdminServer::Impl::Stop() {
  if (!thread_.has_value()) return;
  io_.stop();
  thread_->WaitForEnd(std::numeric_limits<int32_t>::max());
  // Nobody else uses the sessions now. Closing them also closes the event streams that others keep.
  listener_.Close();
  while (!sessions_.empty()) {
    const std::shared_ptr<AdminSession> session = sessions_.begin()->second;
    session->Close();
  }
}

bool AdminServer::Impl::MakeRoom() {
  if (sessions_.size() < shared_.options.max_connections) return true;
  const std::shared_ptr<AdminSession> longest = LongestWaiting(sessions_);
  if (longest == nullptr) return false;
  longest->Close();
  return true;
}

void AdminServer::Impl::Admit(tcp::socket socket) {
  // A connection that finds no room is closed with its socket.
  if (!MakeRoom()) return;
  const auto on_closed = [this](AdminSession& closed) {
    sessions_.erase(&closed);
    shared_.connections.store(sessions_.size(), std::memory_order_relaxed);
  };
  const std::shared_ptr<AdminSession> session = MakeAdminSession(std::move(socket), shared_, on_closed);
  sessions_.emplace(session.get(), session);
  shared_.connections.store(sessions_.size(), std::memory_order_relaxed);
  session->Start();
}

AdminServer::AdminServer(AdminServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

AdminServer::~AdminServer() { Stop(); }

void AdminServer::AddRoute(std::string path, AdminHandler handler, std::string content_security_policy) {
  const bool is_new =
      impl_->shared()
          .routes
          .emplace(std::move(path), AdminRoute{.handler = std::move(handler),
                                               .content_security_policy = std::move(content_security_policy)})
          .second;
  BATON_CHECK(is_new);
}

void AdminServer::AddEventStream(std::string path, EventStreamHandler handler) {
  const bool is_new =
      impl_->shared().routes.emplace(std::move(path), AdminRoute{.stream_handler = std::move(handler)}).second;
  BATON_CHECK(is_new);
}

absl::Status AdminServer::Start() { return impl_->Start(); }

void AdminServer::Stop() { impl_->Stop(); }

std::string AdminServer::address() const { return absl::StrCat(impl_->shared().options.bind, ":", impl_->port()); }

int AdminServer::port() const { return impl_->port(); }

AdminServerStats AdminServer::stats() const {
  const AdminShared& shared = impl_->shared();
  return {.requests = shared.requests.load(std::memory_order_relaxed),
          .connections = shared.connections.load(std::memory_order_relaxed),
          .event_streams = shared.event_streams.load(std::memory_order_relaxed),
          .event_bytes = shared.event_bytes.load(std::memory_order_relaxed)};
}

int64_t AdminServer::cpu_ns() const { return impl_->cpu_ns(); }

}  // namespace baton::telemetry
