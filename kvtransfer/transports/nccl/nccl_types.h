// The part of nccl.h that the transport uses, under names of its own, so that the program builds where NCCL is not
// installed. nccl_types_test.cc holds it to nccl.h where there is one. Every name means what NVIDIA's "NCCL API" says.
#ifndef BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_TYPES_H_
#define BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_TYPES_H_

#include <climits>
#include <cstddef>

namespace baton::kvtransfer::nccl {

// ncclComm_t.
using Comm = struct CommOpaque*;
// cudaStream_t: whatever the library takes for a stream.
using StreamHandle = void*;

// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

// ncclResult_t.
enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// ncclUint8 of ncclDataType_t.
inline constexpr int kUint8 = 1;

// NCCL_VERSION of 2.9 and later.
constexpr int Version(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }

// The oldest library that is taken: the first with all fields of Config. Non-blocking communicators are older.
inline constexpr int kOldestVersion = Version(2, 18, 0);

// NCCL_CONFIG_UNDEF_INT.
inline constexpr int kUndefined = INT_MIN;

// The fields of ncclConfig_t up to 2.18. A library reads no more than `size` bytes and takes what `version` did not
// have for undefined, so that later ones understand it too.
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = kOldestVersion;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

}  // namespace baton::kvtransfer::nccl

#endif  // BATON_KVTRANSFER_TRANSPORTS_NCCL_NCCL_TYPES_H_
