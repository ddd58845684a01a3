// One product by cuBLASLt: out[rows][n] = acts[rows][k] * weights[n][k], all bf16 with sums in f32.
#ifndef BATON_TESTS_CUDA_BENCH_CUBLASLT_PRODUCT_H_
#define BATON_TESTS_CUDA_BENCH_CUBLASLT_PRODUCT_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "tests/cuda/bench/cublaslt_api.h"

namespace baton::engine::cuda {

struct ProductSize {
  int rows = 0;
  int n = 0;
  int k = 0;

  double flops() const { return 2.0 * rows * n * k; }
};

class CublasLtProduct {
 public:
  // Asks for at most this many algorithms.
  static constexpr int kMostAlgorithms = 4;

  // `api` and the device outlive it. UNIMPLEMENTED when the library proposes no algorithm.
  static absl::StatusOr<CublasLtProduct> Create(const CublasLtApi& api, const Device& device, const ProductSize& size);

  // Those that the library proposes, the most promising first.
  int algorithms() const { return static_cast<int>(proposals_.size()); }
  // Starts it on the context's default stream. Addresses of the device.
  absl::Status Run(int algorithm, const void* weights, const void* acts, void* out) const;

 private:
  using Owned = std::unique_ptr<void, cublaslt::Status (*)(void*)>;

  explicit CublasLtProduct(const CublasLtApi& api)
      : api_(&api),
        handle_(nullptr, api.destroy),
        operation_(nullptr, api.operation_destroy),
        weights_(nullptr, api.layout_destroy),
        acts_(nullptr, api.layout_destroy),
        out_(nullptr, api.layout_destroy) {}
  absl::Status Describe(const ProductSize& size);
  absl::Status Propose();

  const CublasLtApi* api_;
  Owned handle_;
  Owned operation_;
  Owned weights_;
  Owned acts_;
  Owned out_;
  DeviceBuffer workspace_;
  std::vector<cublaslt::Proposal> proposals_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_BENCH_CUBLASLT_PRODUCT_H_
