#include "kvtransfer/transports/transfer_server.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_cache.h"

namespace baton::kvtransfer {

absl::StatusOr<rpc::GrpcServer> BuildTransferServer(const TransportOptions& options, const TransferServerLimits& limits,
                                                    grpc::Service& service) {
  const PortRange ports = options.tcp_ports.value_or(PortRange{});
  absl::StatusOr<rpc::GrpcServer> built = absl::UnavailableError("no port");
  for (int port = ports.first; port <= ports.last && !built.ok(); ++port) {
    grpc::ServerBuilder builder;
    rpc::ConfigureServer(builder, limits.request_bytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.streams_per_connection);
    builder.RegisterService(&service);
    built = rpc::BuildGrpcServer(builder,
                                 {.bind = options.bind,
                                  .port = port,
                                  .port_flag = "--transfer-ports",
                                  .credentials = options.credentials,
                                  .guard = {.rules = {.port = rpc::Port::kWorker}}},
                                 /*has_health=*/false);
  }
  return built;
}

std::string TargetFor(const TransportOptions& options, const rpc::GrpcServer& server) {
  if (options.advertise.empty()) return server.address;
  return absl::StrCat(options.advertise, server.address.substr(server.address.rfind(':')));
}

}  // namespace baton::kvtransfer
