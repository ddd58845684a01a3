#include "common/rpc/grpc_server.h"

#include <grpc/support/time.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_cache.h"

namespace baton::rpc {

absl::StatusOr<GrpcServer> StartGrpcServer(const GrpcServerOptions& options) {
  const std::string& bind = options.bind;
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ConfigureServer(builder, options.max_receive_bytes);
  int bound_port = 0;
  builder.AddListeningPort(absl::StrCat(bind, ":", options.port), grpc::InsecureServerCredentials(), &bound_port);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  GrpcServer result;
  result.server = builder.BuildAndStart();
  if (result.server == nullptr || bound_port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", bind, ":", options.port,
                                               ": the port is in use or not ours; choose another --grpc-port"));
  }
  for (const std::string& name : options.health_names) {
    result.server->GetHealthCheckService()->SetServingStatus(name, true);
  }
  // Processes on this host reach a wildcard address by loopback.
  const bool wildcard = bind == "0.0.0.0" || bind == "[::]";
  result.address = absl::StrCat(wildcard ? "127.0.0.1" : bind, ":", bound_port);
  return result;
}

void StopGrpcServer(grpc::Server& server, int64_t timeout_ms) {
  server.Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN)));
}

}  // namespace baton::rpc
