#include "engine/cuda/kernel_set.h"

#include "common/status.h"
#include "engine/cuda/kernels/launch.h"

namespace baton::engine::cuda {
namespace {

// Products of up to this many rows take the kernels for few: the bits are the same, so this is a matter of speed.
constexpr int kMostRowsOfFew = 32;

LaunchShape ShapeOf(const Launch& launch) {
  return {.x = launch.grid_x,
          .y = launch.grid_y,
          .z = launch.grid_z,
          .threads = launch.threads,
          .shared_bytes = launch.shared_bytes};
}

}  // namespace

absl::StatusOr<KernelSet> KernelSet::Load(const Device& device) {
  KernelSet set;
  for (const WeightFormat format :
       {WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kFp8}) {
    const size_t i = static_cast<size_t>(format);
    const Matrix of_format{.format = format};
    const int shared_bytes = static_cast<int>(ProductLaunch(of_format, 1).shared_bytes);
    BATON_ASSIGN_OR_RETURN(set.product_[i], device.Kernel(ProductKernel(format), shared_bytes));
    BATON_ASSIGN_OR_RETURN(set.product_few_[i], device.Kernel(ProductFewKernel(format), kMostSharedBytes));
  }
  const struct {
    CUfunction& kernel;
    const char* name;
    int shared_bytes = 0;
  } others[] = {
      {set.embed_, "embed"},
      {set.add_norm_, "add_norm"},
      {set.store_qkv_, "store_qkv"},
      {set.attention_prefill_, "attention_prefill", PrefillSharedBytes(kMostHeadDim)},
      {set.attention_decode_, "attention_decode", AttentionSharedBytes(kMostHeadDim)},
      {set.attention_split_, "attention_split", AttentionSharedBytes(kMostHeadDim)},
      {set.attention_fold_, "attention_fold"},
      {set.activate_, "activate"},
      {set.zero_rows_, "zero_rows"},
      {set.argmax_, "argmax"},
      {set.sample_, "sample"},
  };
  for (const auto& each : others) {
    BATON_ASSIGN_OR_RETURN(each.kernel, device.Kernel(each.name, each.shared_bytes));
  }
  return set;
}

void KernelSet::Embed(const EmbedParams& params, int rows, const Stream& stream) const {
  stream.Launch(embed_, ShapeOf(EmbedLaunch(rows)), params);
}

void KernelSet::AddNorm(const AddNormParams& params, int rows, const Stream& stream) const {
  stream.Launch(add_norm_, ShapeOf(AddNormLaunch(rows)), params);
}

void KernelSet::Product(const ProductParams& params, const Stream& stream) const {
  const size_t format = static_cast<size_t>(params.weights.format);
  if (params.rows <= kMostRowsOfFew && params.weights.k <= kMostFewDepth) {
    return stream.Launch(product_few_[format], ShapeOf(ProductFewLaunch(params.weights, params.rows)), params);
  }
  stream.Launch(product_[format], ShapeOf(ProductLaunch(params.weights, params.rows)), params);
}

void KernelSet::StoreQkv(const StoreQkvParams& params, int rows, const Stream& stream) const {
  stream.Launch(store_qkv_, ShapeOf(StoreQkvLaunch(rows, params.heads, params.kv_heads)), params);
}

void KernelSet::AttendPrefill(const AttentionParams& params, int tiles, const Stream& stream) const {
  stream.Launch(attention_prefill_, ShapeOf(AttentionPrefillLaunch(tiles, params.kv_heads, params.head_dim)), params);
}

void KernelSet::AttendDecode(const AttentionParams& params, int tiles, const Stream& stream) const {
  stream.Launch(attention_decode_, ShapeOf(AttentionDecodeLaunch(tiles, params.kv_heads, params.head_dim)), params);
}

void KernelSet::AttendInSplits(const AttentionParams& params, int rows, int tiles, const Stream& stream) const {
  stream.Launch(attention_split_, ShapeOf(AttentionSplitLaunch(tiles, params.kv_heads, params.head_dim, params.splits)),
                params);
  stream.Launch(attention_fold_, ShapeOf(AttentionFoldLaunch(rows, params.heads)), params);
}

void KernelSet::Activate(const ActivateParams& params, int rows, const Stream& stream) const {
  stream.Launch(activate_, ShapeOf(ActivateLaunch(rows, params.ffn)), params);
}

void KernelSet::ZeroRows(const ZeroRowsParams& params, int layers, const Stream& stream) const {
  stream.Launch(zero_rows_, ShapeOf(ZeroRowsLaunch(layers, params.kv_heads)), params);
}

void KernelSet::Argmax(const ArgmaxParams& params, int rows, const Stream& stream) const {
  stream.Launch(argmax_, ShapeOf(ArgmaxLaunch(rows)), params);
}

void KernelSet::Sample(const SampleParams& params, int rows, const Stream& stream) const {
  stream.Launch(sample_, ShapeOf(SampleLaunch(rows)), params);
}

}  // namespace baton::engine::cuda
