// The process's UCX: loads it when the first transport needs it, checks its version, sends its log lines through our
// logging, and translates its status codes.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_LIBRARY_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_LIBRARY_H_

#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <string_view>

#include "absl/status/status.h"

namespace baton::kvtransfer {

// UCX's functions that we call, under their own names.
#define BATON_UCX_FUNCTIONS(X)      \
  X(ucp_am_recv_data_nbx)           \
  X(ucp_am_send_nbx)                \
  X(ucp_cleanup)                    \
  X(ucp_config_modify)              \
  X(ucp_config_read)                \
  X(ucp_config_release)             \
  X(ucp_ep_close_nbx)               \
  X(ucp_ep_create)                  \
  X(ucp_ep_rkey_unpack)             \
  X(ucp_get_version)                \
  X(ucp_init_version)               \
  X(ucp_mem_map)                    \
  X(ucp_mem_query)                  \
  X(ucp_mem_unmap)                  \
  X(ucp_request_check_status)       \
  X(ucp_request_free)               \
  X(ucp_rkey_buffer_release)        \
  X(ucp_rkey_destroy)               \
  X(ucp_rkey_pack)                  \
  X(ucp_rkey_ptr)                   \
  X(ucp_worker_arm)                 \
  X(ucp_worker_create)              \
  X(ucp_worker_destroy)             \
  X(ucp_worker_get_address)         \
  X(ucp_worker_get_efd)             \
  X(ucp_worker_progress)            \
  X(ucp_worker_release_address)     \
  X(ucp_worker_set_am_recv_handler) \
  X(ucs_debug_disable_signal)       \
  X(ucs_log_push_handler)           \
  X(ucs_status_string)

struct UcxFunctions {
#define BATON_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  BATON_UCX_FUNCTIONS(BATON_UCX_MEMBER)
#undef BATON_UCX_MEMBER
};

// Loads the library. Once a process, before the first context; later calls return the first result.
// FAILED_PRECONDITION when it is not there or not the one that the headers describe.
absl::Status SetUpUcx();

// After SetUpUcx.
const UcxFunctions& Ucx();

// UNAVAILABLE for what a peer or a network does, RESOURCE_EXHAUSTED for memory, CANCELLED, else INTERNAL. `what` says
// what was tried.
absl::Status UcxError(std::string_view what, ucs_status_t status);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_UCX_LIBRARY_H_
