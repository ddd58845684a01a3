#include "common/rpc/grpc_server.h"

#include <grpc/support/time.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/listen_error.h"
#include "common/status.h"

namespace baton::rpc {

void ServingState::Set(bool serving) {
  absl::MutexLock lock(&mutex_);
  serving_ = serving;
  Tell();
}

void ServingState::Attach(grpc::Server& server, std::vector<std::string> names) {
  absl::MutexLock lock(&mutex_);
  health_ = server.GetHealthCheckService();
  names_ = std::move(names);
  Tell();
}

void ServingState::Shut() {
  absl::MutexLock lock(&mutex_);
  shut_ = true;
  Tell();
}

void ServingState::Tell() {
  if (health_ == nullptr) return;
  for (const std::string& name : names_) health_->SetServingStatus(name, serving_ && !shut_);
}

grpc::ServerGenericBidiReactor* UnknownCalls::CreateReactor(grpc::GenericCallbackServerContext*) {
  class Refusal final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Refusal(const std::string& what) { Finish({grpc::StatusCode::UNIMPLEMENTED, what}); }
    void OnDone() override { delete this; }
  };
  return new Refusal(what_);
}

absl::StatusOr<GrpcServer> BuildGrpcServer(grpc::ServerBuilder& builder, const ListenAddress& where, bool has_health) {
  // gRPC keeps this for the whole process, and looks at it when a server is built.
  grpc::EnableDefaultHealthCheckService(has_health);
  int bound_port = 0;
  GrpcServer result;
  const auto credentials = ServerCredentialsOf(where.credentials, where.guard);
  if (where.clients.has_value()) {
    CapClients(builder, *where.clients);
    auto gate = ConnectionGate::Create(
        {.bind = where.bind, .port = where.port, .max_connections = where.clients->connections}, builder, credentials);
    if (gate.ok()) {
      bound_port = (*gate)->port();
      result.gate = *std::move(gate);
    }
  } else {
    builder.AddListeningPort(absl::StrCat(where.bind, ":", where.port), credentials, &bound_port);
  }
  if (result.gate != nullptr || !where.clients.has_value()) result.server = builder.BuildAndStart();
  if (result.server == nullptr || bound_port == 0) {
    return ExplainListenError(where.bind, where.port, where.port_flag);
  }
  if (result.gate != nullptr) result.gate->Start();
  // Processes on this host reach a wildcard address by loopback.
  result.address = absl::StrCat(IsWildcard(where.bind) ? "127.0.0.1" : where.bind, ":", bound_port);
  return result;
}

absl::StatusOr<GrpcServer> StartGrpcServer(const GrpcServerOptions& options) {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ConfigureServer(builder, options.max_receive_bytes);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<UnknownCalls> unknown_calls;
  if (!options.what.empty()) {
    unknown_calls = std::make_unique<UnknownCalls>(options.what);
    builder.RegisterCallbackGenericService(unknown_calls.get());
  }
  for (AcceptingService* accepting : options.accepting) {
    builder.RegisterService(&accepting->service());
    accepting->Prepare(builder);
  }
  BATON_ASSIGN_OR_RETURN(GrpcServer result, BuildGrpcServer(builder,
                                                            {.bind = options.bind,
                                                             .port = options.port,
                                                             .clients = options.clients,
                                                             .credentials = options.credentials,
                                                             .guard = options.guard},
                                                            /*has_health=*/true));
  result.unknown_calls = std::move(unknown_calls);
  for (const std::string& name : options.live_names) {
    result.server->GetHealthCheckService()->SetServingStatus(name, true);
  }
  for (AcceptingService* accepting : options.accepting) accepting->Accept();
  if (options.serving != nullptr) options.serving->Attach(*result.server, options.health_names);
  return result;
}

bool IsWildcard(const std::string& bind) { return bind == "0.0.0.0" || bind == "[::]"; }

std::string Reachable(const std::string& address, const std::string& advertised_host) {
  if (advertised_host.empty() || address.empty()) return address;
  return absl::StrCat(advertised_host, address.substr(address.rfind(':')));
}

void StopGrpcServer(grpc::Server& server, int64_t timeout_ms) {
  server.Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN)));
}

}  // namespace baton::rpc
