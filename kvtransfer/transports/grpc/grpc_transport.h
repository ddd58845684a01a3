// KV over gRPC, for networks in which UCX may not go. Every block is a message, so it is slower than UCX over TCP.
#ifndef BATON_KVTRANSFER_TRANSPORTS_GRPC_GRPC_TRANSPORT_H_
#define BATON_KVTRANSFER_TRANSPORTS_GRPC_GRPC_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// Listens at once. UNAVAILABLE when it cannot.
absl::StatusOr<std::unique_ptr<Transport>> MakeGrpcTransport(const TransportOptions& options);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_GRPC_GRPC_TRANSPORT_H_
