#include "tests/cuda/bench/cublaslt_product.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"

namespace baton::engine::cuda {
namespace {

// What NVIDIA recommends for sm_90.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

}  // namespace

absl::StatusOr<CublasLtProduct> CublasLtProduct::Create(const CublasLtApi& api, const Device& device,
                                                        const ProductSize& size) {
  device.MakeCurrent();
  CublasLtProduct product(api);
  BATON_ASSIGN_OR_RETURN(product.workspace_, DeviceBuffer::Allocate(device, kWorkspaceBytes));
  cublaslt::Handle handle = nullptr;
  BATON_RETURN_IF_ERROR(CublasLtStatus(api, api.create(&handle), "cublasLtCreate"));
  product.handle_.reset(handle);
  BATON_RETURN_IF_ERROR(product.Describe(size));
  BATON_RETURN_IF_ERROR(product.Propose());
  if (product.proposals_.empty()) {
    return absl::UnimplementedError(
        absl::StrFormat("cuBLASLt proposes no algorithm for %d x %d x %d", size.rows, size.n, size.k));
  }
  return product;
}

// The library's matrices have contiguous columns: what is rows x k for us is k x rows for it, and
// out^T = op(weights) * acts^T.
absl::Status CublasLtProduct::Describe(const ProductSize& size) {
  cublaslt::Operation operation = nullptr;
  BATON_RETURN_IF_ERROR(CublasLtStatus(*api_,
                                       api_->operation_create(&operation, cublaslt::kComputeF32, cublaslt::kRealF32),
                                       "cublasLtMatmulDescCreate"));
  operation_.reset(operation);
  const int transposed = cublaslt::kTransposed;
  BATON_RETURN_IF_ERROR(
      CublasLtStatus(*api_, api_->operation_set(operation, cublaslt::kTransposeA, &transposed, sizeof(transposed)),
                     "cublasLtMatmulDescSetAttribute"));
  const auto describe = [this](Owned& layout, int contiguous, int others) {
    cublaslt::Layout made = nullptr;
    const cublaslt::Status status =
        api_->layout_create(&made, cublaslt::kRealBf16, static_cast<uint64_t>(contiguous),
                            static_cast<uint64_t>(others), static_cast<int64_t>(contiguous));
    if (status == cublaslt::kSuccess) layout.reset(made);
    return CublasLtStatus(*api_, status, "cublasLtMatrixLayoutCreate");
  };
  BATON_RETURN_IF_ERROR(describe(weights_, size.k, size.n));
  BATON_RETURN_IF_ERROR(describe(acts_, size.k, size.rows));
  return describe(out_, size.n, size.rows);
}

absl::Status CublasLtProduct::Propose() {
  cublaslt::Preference made = nullptr;
  BATON_RETURN_IF_ERROR(CublasLtStatus(*api_, api_->preference_create(&made), "cublasLtMatmulPreferenceCreate"));
  const Owned preference(made, api_->preference_destroy);
  const uint64_t bytes = workspace_.bytes();
  BATON_RETURN_IF_ERROR(CublasLtStatus(*api_,
                                       api_->preference_set(made, cublaslt::kMostWorkspaceBytes, &bytes, sizeof(bytes)),
                                       "cublasLtMatmulPreferenceSetAttribute"));
  int count = 0;
  proposals_.resize(kMostAlgorithms);
  const cublaslt::Status status =
      api_->propose(handle_.get(), operation_.get(), weights_.get(), acts_.get(), out_.get(), out_.get(), made,
                    kMostAlgorithms, proposals_.data(), &count);
  proposals_.resize(status == cublaslt::kSuccess ? static_cast<size_t>(count) : 0);
  std::erase_if(proposals_, [](const cublaslt::Proposal& one) { return one.state != cublaslt::kSuccess; });
  // An operation that it cannot do is an empty list.
  return status == cublaslt::kNotSupported ? absl::OkStatus()
                                           : CublasLtStatus(*api_, status, "cublasLtMatmulAlgoGetHeuristic");
}

absl::Status CublasLtProduct::Run(int algorithm, const void* weights, const void* acts, void* out) const {
  const float one = 1.0f, zero = 0.0f;
  const cublaslt::Status status =
      api_->multiply(handle_.get(), operation_.get(), &one, weights, weights_.get(), acts, acts_.get(), &zero, out,
                     out_.get(), out, out_.get(), &proposals_[static_cast<size_t>(algorithm)].algorithm,
                     workspace_.at<void>(), workspace_.bytes(), nullptr);
  return CublasLtStatus(*api_, status, "cublasLtMatmul");
}

}  // namespace baton::engine::cuda
