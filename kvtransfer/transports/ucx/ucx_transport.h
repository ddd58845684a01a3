// KV over UCX: by mapping the peer's memory on one host, by TCP between hosts.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_TRANSPORT_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// kShm uses shared memory only: Connect is UNAVAILABLE where the peer's memory cannot be mapped. kTcp never maps. kAuto
// maps where it can. FAILED_PRECONDITION when another UCX is loaded, UNAVAILABLE when UCX finds no device.
absl::StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const TransportOptions& options);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_TRANSPORT_H_
