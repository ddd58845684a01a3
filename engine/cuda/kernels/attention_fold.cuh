// Sizes of attention, what is left of a split, and how splits fold.
#ifndef BATON_ENGINE_CUDA_KERNELS_ATTENTION_FOLD_CUH_
#define BATON_ENGINE_CUDA_KERNELS_ATTENTION_FOLD_CUH_

#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

// Less than every finite score but itself.
constexpr float kLowest = -3.402823466e38f;
constexpr int kQuarterTokens = kSplitTokens / kQuarters;
constexpr int kTokenTiles = kQuarterTokens / 8;
static_assert(kThreads == kQuarters * kWarp);
// Pairs of tiles of 8 columns that a warp has at most.
constexpr int kMostPairs = kMostHeadDim / 16 / kQuarters;

__device__ __forceinline__ int FirstSeen(int position, int window) {
  return window == 0 ? 0 : max(position - window + 1, 0);
}

struct FoldFactors {
  float maximum;
  float total;
  float split;

  __device__ __forceinline__ float Apply(float before, float x) const {
    return __fmaf_rn(x, split, __fmul_rn(before, total));
  }
};

__device__ __forceinline__ FoldFactors FactorsOf(float total_maximum, float split_maximum, float scale) {
  const float maximum = fmaxf(total_maximum, split_maximum);
  return {maximum, Exp2(__fmul_rn(__fsub_rn(total_maximum, maximum), scale)),
          Exp2(__fmul_rn(__fsub_rn(split_maximum, maximum), scale))};
}

// What a thread holds of a split: of the tile's rows lane / 4 and lane / 4 + 8, columns as in an mma's result.
struct SplitResult {
  float values[kMostPairs][2][4];
  float maximum[2];
  float sum[2];
};

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_ATTENTION_FOLD_CUH_
