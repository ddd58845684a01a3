// Regions of one process, for tests and for `--transport inproc`: a read is a memcpy done in Poll.
#ifndef BATON_KVTRANSFER_TRANSPORTS_INPROC_INPROC_TRANSPORT_H_
#define BATON_KVTRANSFER_TRANSPORTS_INPROC_INPROC_TRANSPORT_H_

#include <memory>

#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// Transports of one process find each other in a registry. A reader keeps its peer's region alive until it disconnects.
// Reads that start after the peer is gone are UNAVAILABLE.
std::unique_ptr<Transport> MakeInprocTransport();

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_INPROC_INPROC_TRANSPORT_H_
