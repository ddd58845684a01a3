// The declarations of nccl_types.h beside those of nccl.h, where the machine that compiles has it.
#include "kvtransfer/transports/nccl/nccl_types.h"

#include "gtest/gtest.h"

#ifdef BATON_HAS_NCCL_H
#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace baton::kvtransfer::nccl {
namespace {

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(int{kSuccess} == ncclSuccess && int{kUnhandledCudaError} == ncclUnhandledCudaError);
static_assert(int{kSystemError} == ncclSystemError && int{kInternalError} == ncclInternalError);
static_assert(int{kInvalidArgument} == ncclInvalidArgument && int{kInvalidUsage} == ncclInvalidUsage);
static_assert(int{kRemoteError} == ncclRemoteError && int{kInProgress} == ncclInProgress);
static_assert(kUint8 == ncclUint8 && kUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(Version(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH) == NCCL_VERSION_CODE && kOldestVersion <= NCCL_VERSION_CODE);
// Arguments and results that the two declarations pass in the same way.
static_assert(sizeof(Comm) == sizeof(ncclComm_t) && sizeof(StreamHandle) == sizeof(cudaStream_t));
static_assert(sizeof(Result) == sizeof(ncclResult_t) && sizeof(int) == sizeof(ncclDataType_t));

static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));

TEST(NcclTypesTest, ConfigBeginsAsNcclsOwn) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(Config{}.magic, theirs.magic);
  EXPECT_EQ(Config{}.blocking, theirs.blocking);
  EXPECT_EQ(Config{}.split_share, theirs.splitShare);
}

}  // namespace
}  // namespace baton::kvtransfer::nccl

#else

TEST(NcclTypesTest, ConfigBeginsAsNcclsOwn) { GTEST_SKIP() << "this machine has no nccl.h"; }

#endif
