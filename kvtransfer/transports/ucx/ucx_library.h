// The process's UCX: version check, logging through ours, status codes.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_LIBRARY_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_LIBRARY_H_

#include <ucs/type/status.h>

#include <string_view>

#include "absl/status/status.h"

namespace baton::kvtransfer {

// Once a process, before the first context; later calls return the first result. FAILED_PRECONDITION when the library
// that was loaded is not the one that the headers describe.
absl::Status SetUpUcx();

// UNAVAILABLE for what a peer or a network does, RESOURCE_EXHAUSTED for memory, CANCELLED, else INTERNAL. `what` says
// what was tried.
absl::Status UcxError(std::string_view what, ucs_status_t status);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_LIBRARY_H_
