// KV over UCX: by mapping the peer's memory on one host, by TCP between hosts. Regions of devices (options.memory) are
// opened on one host without UCX (device_reads.h), and otherwise go by TCP through the host. By RDMA, UCX moves the
// bytes of either kind of region itself.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_TRANSPORT_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// kShm uses shared memory only: Connect is UNAVAILABLE where the peer's memory cannot be mapped or opened. kTcp never
// does that, kAuto where it can, and kRdma reaches peers by an adapter alone. FAILED_PRECONDITION when another UCX is
// loaded, and with kRdma when there is no adapter; UNAVAILABLE when UCX finds no device.
absl::StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const TransportOptions& options);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_TRANSPORT_H_
