#include "common/rpc/connection_gate.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/check.h"
#include "common/status.h"

namespace baton::rpc {
namespace {

constexpr int kEventsAtOnce = 64;
// Descriptors of the process that are no connection of a client.
constexpr rlim_t kOtherDescriptors = 256;
// What a process without descriptors or memory for a connection waits before it tries again.
constexpr absl::Duration kPauseWithoutDescriptors = absl::Milliseconds(100);

absl::Status ErrnoStatus(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Raises the process's limit of descriptors as far as it may, and says how many connections fit below it.
size_t ConnectionsThatFit(size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > kOtherDescriptors + 2 * wanted) return wanted;
  return limit.rlim_cur > kOtherDescriptors ? (limit.rlim_cur - kOtherDescriptors) / 2 : 1;
}

// The client hears of it at once, and no descriptor of ours waits for its answer.
void Reset(Descriptor connection) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Create(
    const Options& options, grpc::ServerBuilder& builder, const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  std::unique_ptr<ConnectionGate> gate(new ConnectionGate());
  gate->max_connections_ = ConnectionsThatFit(static_cast<size_t>(options.max_connections));
  gate->epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  gate->stop_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!gate->epoll_.is_open() || !gate->stop_.is_open()) return ErrnoStatus("epoll");
  BATON_RETURN_IF_ERROR(gate->Listen(options));
  BATON_RETURN_IF_ERROR(gate->Watch(gate->listener_.get(), EPOLLIN));
  BATON_RETURN_IF_ERROR(gate->Watch(gate->stop_.get(), EPOLLIN));
  gate->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  return gate;
}

absl::Status ConnectionGate::Listen(const Options& options) {
  std::string host = options.bind;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(options.port).c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  listener_ = Descriptor(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Accepted sockets inherit it.
  setsockopt(listener_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (bind(listener_.get(), found->ai_addr, found->ai_addrlen) != 0) return ErrnoStatus("bind");
  if (listen(listener_.get(), SOMAXCONN) != 0) return ErrnoStatus("listen");
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  BATON_CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size) == 0);
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return absl::OkStatus();
}

absl::Status ConnectionGate::Watch(int fd, uint32_t events) {
  epoll_event event = {.events = events, .data = {.fd = fd}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return ErrnoStatus("epoll_ctl");
  return absl::OkStatus();
}

ConnectionGate::~ConnectionGate() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) == sizeof(one) && thread_.joinable()) thread_.join();
  for (const int fd : open_) {
    shutdown(fd, SHUT_WR);
    close(fd);
  }
}

void ConnectionGate::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ConnectionGate::Run() {
  std::array<epoll_event, kEventsAtOnce> events;
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop_.get()) return;
      if (fd == listener_.get()) {
        Accept();
      } else if ((events[i].events & (EPOLLHUP | EPOLLERR)) != 0) {
        Forget(fd);
      }
    }
  }
}

// The kernel watches a connection until its last descriptor is closed, and gRPC may still have one. It would go on to
// tell of this number, which by then may be the descriptor of something else.
void ConnectionGate::Forget(int fd) {
  BATON_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0);
  close(fd);
  open_.erase(fd);
  // Whoever sees this count may count on the number's being free.
  open_count_.store(open_.size(), std::memory_order_release);
}

void ConnectionGate::Accept() {
  Descriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!connection.is_open()) {
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) absl::SleepFor(kPauseWithoutDescriptors);
    return;
  }
  if (open_.size() >= max_connections_) return Reset(std::move(connection));
  Descriptor second(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  if (!second.is_open() || !Watch(second.get(), 0).ok()) return Reset(std::move(connection));
  open_.insert(second.get());
  open_count_.store(open_.size(), std::memory_order_relaxed);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listener_.get();
  parameters.fd = connection.Release();
  acceptor_->HandleNewConnection(&parameters);
  second.Release();
}

}  // namespace baton::rpc
