// Host memory for the stand-in of NCCL (tests/nccl), whose streams are threads.
#ifndef BATON_KVTRANSFER_TRANSPORTS_NCCL_STAND_IN_MEMORY_H_
#define BATON_KVTRANSFER_TRANSPORTS_NCCL_STAND_IN_MEMORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/memory_access.h"
#include "kvtransfer/transports/nccl/nccl_api.h"

namespace baton::kvtransfer {

// FAILED_PRECONDITION when the library is not the stand-in: NCCL itself moves the memory of devices alone.
absl::StatusOr<std::unique_ptr<MemoryAccess>> MakeStandInMemory(const NcclApi& api);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_NCCL_STAND_IN_MEMORY_H_
