#include "tests/nccl/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace baton::nccl_stand_in {
namespace {

constexpr int kPollMs = 5;

// What the bytes of an id are, and what the other rank says first.
struct IdContent {
  std::array<uint8_t, 16> secret;
  uint16_t port;
};
static_assert(sizeof(IdContent) <= sizeof(nccl::UniqueId));

struct Greeting {
  std::array<uint8_t, 16> secret;
  // Whether rank 1 sends on this socket.
  uint8_t from_first_rank;
};

std::mutex listeners_mutex;
// By port; those whose communicator has not been formed.
std::map<uint16_t, int> listeners;

IdContent ContentOf(const nccl::UniqueId& id) {
  IdContent content;
  std::memcpy(&content, id.bytes, sizeof(content));
  return content;
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

bool IsReadable(int fd) {
  pollfd entry = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, kPollMs) > 0;
}

void SendAtOnce(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

std::optional<Connection> Accept(const IdContent& id, const std::function<bool()>& is_given_up) {
  int listener = -1;
  {
    const std::lock_guard lock(listeners_mutex);
    const auto found = listeners.find(id.port);
    if (found == listeners.end()) return std::nullopt;
    listener = found->second;
    listeners.erase(found);
  }
  Connection connection;
  while (!is_given_up() && (connection.sending < 0 || connection.receiving < 0)) {
    if (!IsReadable(listener)) continue;
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    Greeting greeting{};
    const bool greeted = fd >= 0 && recv(fd, &greeting, sizeof(greeting), MSG_WAITALL) == sizeof(greeting);
    if (!greeted || greeting.secret != id.secret) {
      if (fd >= 0) close(fd);
      continue;
    }
    SendAtOnce(fd);
    (greeting.from_first_rank != 0 ? connection.receiving : connection.sending) = fd;
  }
  close(listener);
  if (connection.sending >= 0 && connection.receiving >= 0) return connection;
  for (const int fd : {connection.sending, connection.receiving}) {
    if (fd >= 0) close(fd);
  }
  return std::nullopt;
}

// Whether the connection that was begun stands before the caller gives it up.
bool IsConnected(int fd, const std::function<bool()>& is_given_up) {
  pollfd entry = {.fd = fd, .events = POLLOUT, .revents = 0};
  while (poll(&entry, 1, kPollMs) == 0) {
    if (is_given_up()) return false;
  }
  return (entry.revents & (POLLERR | POLLHUP)) == 0;
}

int Dial(const IdContent& id, bool from_first_rank, const std::function<bool()>& is_given_up) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_in address = Loopback(id.port);
  const Greeting greeting = {.secret = id.secret, .from_first_rank = from_first_rank};
  const bool begun =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EINPROGRESS;
  if (begun && IsConnected(fd, is_given_up) &&
      send(fd, &greeting, sizeof(greeting), MSG_NOSIGNAL) == sizeof(greeting)) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    SendAtOnce(fd);
    return fd;
  }
  close(fd);
  return -1;
}

}  // namespace

bool DrawId(nccl::UniqueId& id) {
  IdContent content{};
  if (getrandom(content.secret.data(), content.secret.size(), 0) != static_cast<ssize_t>(content.secret.size())) {
    return false;
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 || listen(fd, 2) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    close(fd);
    return false;
  }
  content.port = ntohs(address.sin_port);
  std::memset(id.bytes, 0, sizeof(id.bytes));
  std::memcpy(id.bytes, &content, sizeof(content));
  const std::lock_guard lock(listeners_mutex);
  listeners[content.port] = fd;
  return true;
}

std::optional<Connection> Meet(const nccl::UniqueId& id, int rank, const std::function<bool()>& is_given_up) {
  const IdContent content = ContentOf(id);
  if (rank == 0) return Accept(content, is_given_up);
  const Connection connection = {.sending = Dial(content, true, is_given_up),
                                 .receiving = Dial(content, false, is_given_up)};
  if (connection.sending >= 0 && connection.receiving >= 0) return connection;
  for (const int fd : {connection.sending, connection.receiving}) {
    if (fd >= 0) close(fd);
  }
  return std::nullopt;
}

}  // namespace baton::nccl_stand_in
