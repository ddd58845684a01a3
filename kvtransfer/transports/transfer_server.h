// The gRPC server of a transport that has one: it listens where the options say, and lets in whom the credentials say.
#ifndef BATON_KVTRANSFER_TRANSPORTS_TRANSFER_SERVER_H_
#define BATON_KVTRANSFER_TRANSPORTS_TRANSFER_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/grpc_server.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

struct TransferServerLimits {
  // Zero: the bound of messages between our own processes.
  int request_bytes = 0;
  int streams_per_connection = 0;
};

// The service outlives the server. UNAVAILABLE when it cannot listen.
absl::StatusOr<rpc::GrpcServer> BuildTransferServer(const TransportOptions& options, const TransferServerLimits& limits,
                                                    grpc::Service& service);

// host:port by which readers reach the server.
std::string TargetFor(const TransportOptions& options, const rpc::GrpcServer& server);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_TRANSFER_SERVER_H_
