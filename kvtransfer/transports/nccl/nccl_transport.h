// KV from the memory of one GPU to that of another by NCCL, with a communicator for each owner and reader. Proven with
// a stand-in of NCCL's C interface (tests/nccl), over host memory and over that of an emulated device; not yet run on
// GPUs.
//
// NCCL refuses two ranks on one GPU, so workers that share a GPU, and a region's own process, cannot be peers of each
// other. The stand-in allows it.
#ifndef BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_TRANSPORT_H_
#define BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// Loads NCCL and listens at once. FAILED_PRECONDITION when there is no NCCL, or it does not move host memory;
// UNAVAILABLE when it cannot listen.
absl::StatusOr<std::unique_ptr<Transport>> MakeNcclTransport(const TransportOptions& options);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_TRANSPORT_H_
