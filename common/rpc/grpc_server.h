// A gRPC server as each of our processes runs one.
#ifndef BATON_COMMON_RPC_GRPC_SERVER_H_
#define BATON_COMMON_RPC_GRPC_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/client_caps.h"
#include "common/rpc/connection_gate.h"
#include "common/rpc/credentials.h"

namespace baton::rpc {

// Answers every call that no service of its server takes.
class UnknownCalls final : public grpc::CallbackGenericService {
 public:
  explicit UnknownCalls(std::string what) : what_(std::move(what)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

 private:
  const std::string what_;
};

struct GrpcServer {
  // Outlives the server.
  std::unique_ptr<UnknownCalls> unknown_calls = nullptr;
  std::unique_ptr<grpc::Server> server;
  // host:port at which others reach the server.
  std::string address;
  // A server for clients has one; it ends before the server does.
  std::unique_ptr<ConnectionGate> gate = nullptr;
};

// Whether a server that binds so listens on all addresses.
bool IsWildcard(const std::string& bind);

// `address` with the host that is advertised, if there is one. An empty address stays empty.
std::string Reachable(const std::string& address, const std::string& advertised_host);

struct ListenAddress {
  std::string bind;
  // 0: any free one.
  int port = 0;
  // Named by the error when the port is taken.
  const char* port_flag = "--grpc-port";
  // Set for a server whose clients are not our own processes.
  std::optional<ClientCaps> clients = std::nullopt;
  // Whom the server lets in; without credentials everybody, in plain text. They outlive the server.
  Credentials* credentials = nullptr;
  ServerGuard guard = {};
};

// Whether a process can serve, as the health service of its gRPC server says it. Thread-safe.
class ServingState {
 public:
  // Not serving at first.
  void Set(bool serving) ABSL_LOCKS_EXCLUDED(mutex_);
  // Once: the health service of `server` answers for `names` from now on. The server outlives the last Set.
  void Attach(grpc::Server& server, std::vector<std::string> names) ABSL_LOCKS_EXCLUDED(mutex_);
  // The process ends: not serving, whatever is set later.
  void Shut() ABSL_LOCKS_EXCLUDED(mutex_);
  bool serving() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return serving_ && !shut_;
  }

 private:
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::HealthCheckServiceInterface* health_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

// A service of a server that accepts its calls on a thread of its own (event_queue.h).
class AcceptingService {
 public:
  virtual ~AcceptingService() = default;
  virtual grpc::Service& service() = 0;
  // Before the server is built, which registers the service.
  virtual void Prepare(grpc::ServerBuilder& builder) = 0;
  // The server has been built.
  virtual void Accept() = 0;
  // The server has been shut down: returns when no call is left, for which others that serve the calls must still run.
  virtual void Stop() = 0;
};

struct GrpcServerOptions {
  std::string bind;
  int port = 0;
  std::vector<grpc::Service*> services = {};
  std::vector<AcceptingService*> accepting = {};
  // Full names of services whose health is `serving`, which outlives the server; "" means the server as a whole.
  std::vector<std::string> health_names = {};
  // Full names of services that serve as long as the server does. Health knows no others.
  std::vector<std::string> live_names = {};
  ServingState* serving = nullptr;
  // Said, with UNIMPLEMENTED, to whoever calls another service: what this process is. Empty: nothing is said.
  std::string what = {};
  // 0 allows the largest message that our own processes send each other.
  int max_receive_bytes = 0;
  // As in ListenAddress.
  std::optional<ClientCaps> clients = std::nullopt;
  Credentials* credentials = nullptr;
  ServerGuard guard = {};
};

// Builds the server of what `builder` has already.
absl::StatusOr<GrpcServer> BuildGrpcServer(grpc::ServerBuilder& builder, const ListenAddress& where, bool has_health);

// Adds the health and reflection services. UNAVAILABLE, naming the port, when the port is taken.
absl::StatusOr<GrpcServer> StartGrpcServer(const GrpcServerOptions& options);

// Takes no new calls, and cuts those that are still open after `timeout_ms`.
void StopGrpcServer(grpc::Server& server, int64_t timeout_ms);

}  // namespace baton::rpc

#endif  // BATON_COMMON_RPC_GRPC_SERVER_H_
