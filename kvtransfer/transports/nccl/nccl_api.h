// The functions of NCCL that the transport calls, as a table: the program never links against NCCL, so that the same
// binary starts on machines without it.
//
// Communicators are non-blocking, and end by ncclCommAbort alone: ncclCommFinalize waits for the peer, which may be
// gone.
#ifndef BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_API_H_
#define BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_API_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvtransfer/transports/nccl/nccl_types.h"

namespace baton::kvtransfer {

struct NcclApi {
  nccl::Result (*get_version)(int* version) = nullptr;
  nccl::Result (*get_unique_id)(nccl::UniqueId* id) = nullptr;
  nccl::Result (*comm_init_rank_config)(nccl::Comm* comm, int ranks, nccl::UniqueId id, int rank,
                                        nccl::Config* config) = nullptr;
  nccl::Result (*comm_get_async_error)(nccl::Comm comm, nccl::Result* error) = nullptr;
  nccl::Result (*comm_abort)(nccl::Comm comm) = nullptr;
  nccl::Result (*group_start)() = nullptr;
  nccl::Result (*group_end)() = nullptr;
  nccl::Result (*send)(const void* bytes, size_t count, int type, int peer, nccl::Comm comm,
                       nccl::StreamHandle stream) = nullptr;
  nccl::Result (*receive)(void* bytes, size_t count, int type, int peer, nccl::Comm comm,
                          nccl::StreamHandle stream) = nullptr;
  const char* (*get_error_string)(nccl::Result result) = nullptr;

  // Of the library that was loaded, as ncclGetVersion says it.
  int version = 0;
  // The name by which it was loaded, for messages.
  std::string library;
  // As dlopen gives it; never closed, because NCCL does not undo what it sets up.
  void* handle = nullptr;
};

// Loads `library`; where it is empty, the file that $BATON_NCCL_LIBRARY names, else libnccl.so.2 of the system's search
// path. FAILED_PRECONDITION when it is not there, lacks a function, or is older than kOldestVersion; the message says
// what to do.
absl::StatusOr<NcclApi> LoadNcclApi(const std::string& library = {});

// "2.28.9".
std::string NcclVersionName(int version);

// What a call's answer means: OK for success and for in progress, UNAVAILABLE for what a peer or a network does,
// FAILED_PRECONDITION for what the machine lacks, else INTERNAL. `what` names the call.
absl::Status NcclStatus(const NcclApi& api, nccl::Result result, std::string_view what);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_API_H_
