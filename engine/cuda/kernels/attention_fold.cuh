// Sizes of attention, sums of a split, what is left of it, and how splits fold.
#ifndef BATON_ENGINE_CUDA_KERNELS_ATTENTION_FOLD_CUH_
#define BATON_ENGINE_CUDA_KERNELS_ATTENTION_FOLD_CUH_

#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

// Less than every finite score but itself.
constexpr float kLowest = -3.402823466e38f;
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

// The sum of p over a quarter of the split, of row lane / 4 + 8 * half: `p` as the mma of scores gives it, unrounded.
__device__ __forceinline__ float SumOfQuarter(const float (&p)[kTokenTiles][4], int half) {
  // Lanes of the sum: token mod 16 is 8 * (j mod 2) + 2 * (lane mod 4) + i.
  float sum[2][2] = {};
#pragma unroll
  for (int j = 0; j < kTokenTiles; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) sum[j % 2][i] = __fadd_rn(sum[j % 2][i], p[j][2 * half + i]);
  }
  float even = __fadd_rn(sum[0][0], sum[1][0]);
  float odd = __fadd_rn(sum[0][1], sum[1][1]);
  even = __fadd_rn(even, __shfl_xor_sync(kAllLanes, even, 2));
  odd = __fadd_rn(odd, __shfl_xor_sync(kAllLanes, odd, 2));
  even = __fadd_rn(even, __shfl_xor_sync(kAllLanes, even, 1));
  odd = __fadd_rn(odd, __shfl_xor_sync(kAllLanes, odd, 1));
  return __fadd_rn(even, odd);
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
