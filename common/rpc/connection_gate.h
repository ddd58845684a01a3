// Accepts the connections of clients for a gRPC server, up to a bound. gRPC itself has none, and stops listening for
// good when the process has no file descriptor left.
#ifndef BATON_COMMON_RPC_CONNECTION_GATE_H_
#define BATON_COMMON_RPC_CONNECTION_GATE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

namespace baton::rpc {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // The caller owns the descriptor from now on.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A connection beyond the bound is reset at once, which its client reads as UNAVAILABLE. gRPC owns the accepted
// descriptors. The gate keeps a second one of each and so hears of its end: gRPC shuts a connection down before it
// closes its own. One thread, which only waits and accepts.
class ConnectionGate {
 public:
  struct Options {
    std::string bind;
    // 0: any free one.
    int port = 0;
    int max_connections = 0;
  };

  // Listens, and gives the connections to the server that `builder` will build. UNAVAILABLE when the address is taken
  // or not ours.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Create(
      const Options& options, grpc::ServerBuilder& builder,
      const std::shared_ptr<grpc::ServerCredentials>& credentials = grpc::InsecureServerCredentials());
  // Before the server ends. What has been written is still sent, and then each client reads the end of its connection:
  // the calls that it has open are UNAVAILABLE. To calls that reach a server which is shutting down, gRPC would say
  // CANCELLED, after which no client tries again.
  ~ConnectionGate();

  // Once, after the server has been built.
  void Start();
  int port() const { return port_; }
  // Open connections. Any thread.
  size_t open_count() const { return open_count_.load(std::memory_order_acquire); }

 private:
  ConnectionGate() = default;
  absl::Status Listen(const Options& options);
  absl::Status Watch(int fd, uint32_t events);
  void Run();
  void Accept();
  // Closes the second descriptor of a connection that has ended.
  void Forget(int fd);

  // Twice the descriptors of max_connections fit into the process's limit.
  size_t max_connections_ = 0;
  int port_ = 0;
  Descriptor listener_;
  Descriptor epoll_;
  Descriptor stop_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  // Second descriptors of the open connections. Only the thread touches them.
  absl::flat_hash_set<int> open_;
  std::atomic<size_t> open_count_ = 0;
  std::thread thread_;
};

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_CONNECTION_GATE_H_
