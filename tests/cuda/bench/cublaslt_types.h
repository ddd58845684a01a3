// The part of cublasLt.h that the benchmark uses, under names of its own, so that it builds where the library's headers
// are not installed. cublaslt_types_test.cc holds it to cublasLt.h where there is one. Every name means what NVIDIA's
// "cuBLAS" documentation says.
#ifndef BATON_TESTS_CUDA_BENCH_CUBLASLT_TYPES_H_
#define BATON_TESTS_CUDA_BENCH_CUBLASLT_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace baton::cublaslt {

// cublasStatus_t.
using Status = int;
inline constexpr Status kSuccess = 0;
inline constexpr Status kNotInitialized = 1;
inline constexpr Status kInvalidValue = 7;
inline constexpr Status kNotSupported = 15;

// cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, cudaStream_t.
using Handle = void*;
using Operation = void*;
using Layout = void*;
using Preference = void*;
using StreamHandle = void*;

// Of cudaDataType_t: CUDA_R_32F and CUDA_R_16BF.
inline constexpr int kRealF32 = 0;
inline constexpr int kRealBf16 = 14;
// CUBLAS_COMPUTE_32F, CUBLAS_OP_T, CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES.
inline constexpr int kComputeF32 = 68;
inline constexpr int kTransposed = 1;
inline constexpr int kTransposeA = 3;
inline constexpr int kMostWorkspaceBytes = 1;

// cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t data[8];
};

// cublasLtMatmulHeuristicResult_t.
struct Proposal {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

}  // namespace baton::cublaslt

#endif  // BATON_TESTS_CUDA_BENCH_CUBLASLT_TYPES_H_
