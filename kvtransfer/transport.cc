#include "kvtransfer/transport.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "kvtransfer/transports/grpc/grpc_transport.h"
#include "kvtransfer/transports/inproc/inproc_transport.h"
#include "kvtransfer/transports/nccl/nccl_transport.h"
#include "kvtransfer/transports/ucx/ucx_transport.h"

namespace baton::kvtransfer {

absl::StatusOr<TransportKind> ParseTransportKind(std::string_view name) {
  if (name == "auto") return TransportKind::kAuto;
  if (name == "inproc") return TransportKind::kInproc;
  if (name == "shm") return TransportKind::kShm;
  if (name == "tcp") return TransportKind::kTcp;
  if (name == "rdma") return TransportKind::kRdma;
  if (name == "grpc") return TransportKind::kGrpc;
  if (name == "nccl") return TransportKind::kNccl;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown transport \"", ToAbsl(name), "\": use auto, shm, tcp, rdma, grpc, nccl or inproc"));
}

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const TransportOptions& options) {
  if (options.memory != nullptr && options.kind == TransportKind::kInproc) {
    return absl::FailedPreconditionError(
        "--transport inproc moves host memory, and the KV is in a device's: choose auto, shm, tcp, rdma, grpc or nccl");
  }
  if (options.kind == TransportKind::kInproc) return MakeInprocTransport();
  if (options.kind == TransportKind::kGrpc) return MakeGrpcTransport(options);
  if (options.kind == TransportKind::kNccl) return MakeNcclTransport(options);
  return MakeUcxTransport(options);
}

}  // namespace baton::kvtransfer
