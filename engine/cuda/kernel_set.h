// The kernels of a device's module, with the shape of each one's launch.
#ifndef BATON_ENGINE_CUDA_KERNEL_SET_H_
#define BATON_ENGINE_CUDA_KERNEL_SET_H_

#include <array>

#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/cuda/kernels/params.h"

namespace baton::engine::cuda {

class KernelSet {
 public:
  KernelSet() = default;
  // NOT_FOUND names a kernel that the device's images lack.
  static absl::StatusOr<KernelSet> Load(const Device& device);

  void Embed(const EmbedParams& params, int rows, const Stream& stream) const;
  void AddNorm(const AddNormParams& params, int rows, const Stream& stream) const;
  void Product(const ProductParams& params, const Stream& stream) const;
  void StoreQkv(const StoreQkvParams& params, int rows, const Stream& stream) const;
  // The first one takes large tiles, the second one small ones.
  void AttendPrefill(const AttentionParams& params, int tiles, const Stream& stream) const;
  void AttendDecode(const AttentionParams& params, int tiles, const Stream& stream) const;
  void AttendInSplits(const AttentionParams& params, int rows, int tiles, const Stream& stream) const;
  void Activate(const ActivateParams& params, int rows, const Stream& stream) const;
  void ZeroRows(const ZeroRowsParams& params, int layers, const Stream& stream) const;
  void Argmax(const ArgmaxParams& params, int rows, const Stream& stream) const;
  void Sample(const SampleParams& params, int rows, const Stream& stream) const;

 private:
  CUfunction embed_ = nullptr;
  CUfunction add_norm_ = nullptr;
  // By WeightFormat.
  std::array<CUfunction, 4> product_{};
  std::array<CUfunction, 4> product_few_{};
  CUfunction store_qkv_ = nullptr;
  CUfunction attention_prefill_ = nullptr;
  CUfunction attention_decode_ = nullptr;
  CUfunction attention_split_ = nullptr;
  CUfunction attention_fold_ = nullptr;
  CUfunction activate_ = nullptr;
  CUfunction zero_rows_ = nullptr;
  CUfunction argmax_ = nullptr;
  CUfunction sample_ = nullptr;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNEL_SET_H_
