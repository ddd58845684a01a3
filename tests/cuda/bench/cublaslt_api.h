// The functions of cuBLASLt that the benchmark calls, as a table: nothing links against the library. The engine itself
// computes every product by its own kernels; cuBLASLt is what they are held against (docs/gpu.md).
#ifndef BATON_TESTS_CUDA_BENCH_CUBLASLT_API_H_
#define BATON_TESTS_CUDA_BENCH_CUBLASLT_API_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/cuda/bench/cublaslt_types.h"

namespace baton::engine::cuda {

// The variable names the library; where it is not set these are tried, in this order.
inline constexpr char kCublasLtVariable[] = "BATON_CUBLASLT_LIBRARY";
inline constexpr const char* kCublasLtLibraries[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
// A library that has this symbol is the stand-in of the tests.
inline constexpr char kCublasLtStandInSymbol[] = "baton_cublaslt_stand_in";

struct CublasLtApi {
  size_t (*get_version)() = nullptr;
  const char* (*get_status_string)(cublaslt::Status status) = nullptr;
  cublaslt::Status (*create)(cublaslt::Handle* handle) = nullptr;
  cublaslt::Status (*destroy)(cublaslt::Handle handle) = nullptr;
  cublaslt::Status (*operation_create)(cublaslt::Operation* operation, int compute, int scale_type) = nullptr;
  cublaslt::Status (*operation_destroy)(cublaslt::Operation operation) = nullptr;
  cublaslt::Status (*operation_set)(cublaslt::Operation operation, int attribute, const void* value,
                                    size_t bytes) = nullptr;
  cublaslt::Status (*layout_create)(cublaslt::Layout* layout, int type, uint64_t rows, uint64_t columns,
                                    int64_t stride) = nullptr;
  cublaslt::Status (*layout_destroy)(cublaslt::Layout layout) = nullptr;
  cublaslt::Status (*preference_create)(cublaslt::Preference* preference) = nullptr;
  cublaslt::Status (*preference_destroy)(cublaslt::Preference preference) = nullptr;
  cublaslt::Status (*preference_set)(cublaslt::Preference preference, int attribute, const void* value,
                                     size_t bytes) = nullptr;
  cublaslt::Status (*propose)(cublaslt::Handle handle, cublaslt::Operation operation, cublaslt::Layout a,
                              cublaslt::Layout b, cublaslt::Layout c, cublaslt::Layout d,
                              cublaslt::Preference preference, int asked, cublaslt::Proposal* proposals,
                              int* count) = nullptr;
  cublaslt::Status (*multiply)(cublaslt::Handle handle, cublaslt::Operation operation, const void* alpha, const void* a,
                               cublaslt::Layout a_layout, const void* b, cublaslt::Layout b_layout, const void* beta,
                               const void* c, cublaslt::Layout c_layout, void* d, cublaslt::Layout d_layout,
                               const cublaslt::Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                               cublaslt::StreamHandle stream) = nullptr;

  // As the library says it: 130000 for 13.0.0.
  size_t version = 0;
  // The name by which it was loaded.
  std::string library;
  bool is_stand_in = false;
};

// Loads the library, which is never closed. UNAVAILABLE when there is none or when it lacks a function; the message
// says which.
absl::StatusOr<CublasLtApi> LoadCublasLt();

// What a call's answer means: OK, else INTERNAL. `what` names the call.
absl::Status CublasLtStatus(const CublasLtApi& api, cublaslt::Status status, const char* what);

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_BENCH_CUBLASLT_API_H_
