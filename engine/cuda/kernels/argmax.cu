#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

constexpr int kArgmaxThreads = 1024;
constexpr int kArgmaxWarps = kArgmaxThreads / kWarp;

// Orders tokens: the greater key has the greater logit or, among equals, the lower id. A NaN's half is 0; the zeros of
// both signs are equal.
__device__ __forceinline__ uint64_t KeyOf(float logit, int token) {
  const uint32_t bits = __float_as_uint(__fadd_rn(logit, 0.0f));
  uint32_t order = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  if (isnan(logit)) order = 0;
  return static_cast<uint64_t>(order) << 32 | (0xffffffffu - static_cast<uint32_t>(token));
}

__device__ __forceinline__ uint64_t GreatestOfWarp(uint64_t key) {
#pragma unroll
  for (int width = kWarp / 2; width > 0; width /= 2) {
    const uint32_t high = __shfl_xor_sync(kAllLanes, static_cast<uint32_t>(key >> 32), width);
    const uint32_t low = __shfl_xor_sync(kAllLanes, static_cast<uint32_t>(key), width);
    const uint64_t other = static_cast<uint64_t>(high) << 32 | low;
    key = other > key ? other : key;
  }
  return key;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kArgmaxThreads) argmax(const __grid_constant__ ArgmaxParams p) {
  __shared__ uint64_t greatest[kArgmaxWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const float* const logits = p.logits + static_cast<size_t>(blockIdx.x) * p.vocab;
  uint64_t key = 0;
#pragma unroll 8
  for (int i = thread; i < p.vocab; i += kArgmaxThreads) {
    const uint64_t other = KeyOf(__ldg(logits + i), i);
    key = other > key ? other : key;
  }
  key = GreatestOfWarp(key);
  if (thread % kWarp == 0) greatest[thread / kWarp] = key;
  __syncthreads();
  if (thread >= kWarp) return;
  key = GreatestOfWarp(greatest[thread]);
  if (thread == 0) p.tokens[blockIdx.x] = static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
}

}  // namespace baton::engine::cuda
