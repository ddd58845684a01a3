// The order of tokens by their logits.
#ifndef BATON_ENGINE_CUDA_KERNELS_KEY_CUH_
#define BATON_ENGINE_CUDA_KERNELS_KEY_CUH_

#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

// A block that looks at a whole row of logits.
constexpr int kRowThreads = 1024;
constexpr int kRowWarps = kRowThreads / kWarp;
constexpr uint64_t kNoKey = ~uint64_t{0};

// The upper half of a key: less for a greater logit. The zeros of both signs are equal. Not of a NaN.
__device__ __forceinline__ uint32_t OrderOf(float logit) {
  const uint32_t bits = __float_as_uint(__fadd_rn(logit, 0.0f));
  return bits ^ ((bits >> 31) != 0 ? 0u : 0x7fffffffu);
}

// Ascends with logits descending, then with ids ascending; a NaN comes last.
__device__ __forceinline__ uint64_t KeyOf(float logit, int token) {
  const uint32_t order = isnan(logit) ? 0xffffffffu : OrderOf(logit);
  return static_cast<uint64_t>(order) << 32 | static_cast<uint32_t>(token);
}

__device__ __forceinline__ int TokenOf(uint64_t key) { return static_cast<int>(static_cast<uint32_t>(key)); }

__device__ __forceinline__ float LogitOf(uint64_t key) {
  const uint32_t order = static_cast<uint32_t>(key >> 32);
  return __uint_as_float(order ^ ((order >> 31) != 0 ? 0u : 0x7fffffffu));
}

__device__ __forceinline__ uint64_t LeastOfWarp(uint64_t key) {
#pragma unroll
  for (int width = kWarp / 2; width > 0; width /= 2) {
    const uint32_t high = __shfl_xor_sync(kAllLanes, static_cast<uint32_t>(key >> 32), width);
    const uint32_t low = __shfl_xor_sync(kAllLanes, static_cast<uint32_t>(key), width);
    const uint64_t other = static_cast<uint64_t>(high) << 32 | low;
    key = other < key ? other : key;
  }
  return key;
}

// The least key of a row, for every thread. `shared` has room for kRowWarps keys.
__device__ __forceinline__ uint64_t LeastKey(const float* logits, int vocab, uint64_t* shared) {
  const int thread = static_cast<int>(threadIdx.x);
  uint64_t key = kNoKey;
#pragma unroll 8
  for (int i = thread; i < vocab; i += kRowThreads) {
    const uint64_t other = KeyOf(__ldg(logits + i), i);
    key = other < key ? other : key;
  }
  key = LeastOfWarp(key);
  if (thread % kWarp == 0) shared[thread / kWarp] = key;
  __syncthreads();
  static_assert(kRowWarps == kWarp);
  return LeastOfWarp(shared[thread % kWarp]);
}

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_KEY_CUH_
