// The declarations of cublaslt_types.h beside those of cublasLt.h, where the machine that compiles has it.
#include "tests/cuda/bench/cublaslt_types.h"

#include "gtest/gtest.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <cstddef>

namespace baton::cublaslt {
namespace {

static_assert(kSuccess == CUBLAS_STATUS_SUCCESS && kNotInitialized == CUBLAS_STATUS_NOT_INITIALIZED);
static_assert(kInvalidValue == CUBLAS_STATUS_INVALID_VALUE && kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kRealF32 == CUDA_R_32F && kRealBf16 == CUDA_R_16BF);
static_assert(kComputeF32 == CUBLAS_COMPUTE_32F && kTransposed == CUBLAS_OP_T);
static_assert(kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kMostWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
// Arguments and results that the two declarations pass in the same way.
static_assert(sizeof(Status) == sizeof(cublasStatus_t) && sizeof(int) == sizeof(cudaDataType_t));
static_assert(sizeof(int) == sizeof(cublasComputeType_t) && sizeof(int) == sizeof(cublasOperation_t));
static_assert(sizeof(int) == sizeof(cublasLtMatmulDescAttributes_t));
static_assert(sizeof(Handle) == sizeof(cublasLtHandle_t) && sizeof(StreamHandle) == sizeof(cudaStream_t));

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Proposal) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Proposal, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Proposal, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(Proposal, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

TEST(CublasLtTypes, AreThoseOfTheLibrarysHeader) {}

}  // namespace
}  // namespace baton::cublaslt

#else

TEST(CublasLtTypes, AreThoseOfTheLibrarysHeader) { GTEST_SKIP() << "this machine has no cublasLt.h"; }

#endif
