#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

constexpr int kDigestWarps = kThreads / kWarp;

__device__ __forceinline__ uint64_t MixBits(uint64_t v) {
  v = (v ^ v >> 30) * kDigestFactor1;
  v = (v ^ v >> 27) * kDigestFactor2;
  return v ^ v >> 31;
}

__device__ __forceinline__ uint64_t HalfOf(uint32_t low, uint32_t high) {
  return static_cast<uint64_t>(high) << 32 | low;
}

// For every lane.
__device__ __forceinline__ uint64_t AddOverWarp(uint64_t x) {
#pragma unroll
  for (int width = kWarp / 2; width > 0; width /= 2) {
    const uint32_t low = __shfl_xor_sync(kAllLanes, static_cast<uint32_t>(x), width);
    const uint32_t high = __shfl_xor_sync(kAllLanes, static_cast<uint32_t>(x >> 32), width);
    x += HalfOf(low, high);
  }
  return x;
}

}  // namespace

// With 4 blocks of a multiprocessor in mind the compiler spends the registers that all loads of a thread need at once.
extern "C" __global__ void __launch_bounds__(kThreads, 4) digest(const __grid_constant__ DigestParams p) {
  AwaitKernelsBefore();
  __shared__ uint64_t shared[kDigestWarps][2];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = int64_t{blockIdx.x} * kDigestWords + thread;
  // Those behind the end take the last word, which then does not count.
  uint4 words[kDigestLoads];
#pragma unroll
  for (int j = 0; j < kDigestLoads; ++j) {
    const int64_t i = min(first + j * kThreads, int64_t{p.words} - 1);
    words[j] = LoadOnce16(p.block + 2 * i);
  }
  uint64_t sums[2] = {0, 0};
  uint64_t key = (static_cast<uint64_t>(first) + 1) * kDigestStep;
#pragma unroll
  for (int j = 0; j < kDigestLoads; ++j) {
    const bool is_there = first + j * kThreads < p.words;
    const uint64_t x = MixBits(HalfOf(words[j].x, words[j].y) + key);
    const uint64_t y = MixBits(HalfOf(words[j].z, words[j].w) ^ x);
    const uint64_t z = (x ^ y) * kDigestFactor1;
    sums[0] += is_there ? y : 0;
    sums[1] += is_there ? z ^ z >> 32 : 0;
    key += kThreads * kDigestStep;
  }
#pragma unroll
  for (uint64_t& sum : sums) sum = AddOverWarp(sum);
  if (thread % kWarp == 0) {
    shared[thread / kWarp][0] = sums[0];
    shared[thread / kWarp][1] = sums[1];
  }
  __syncthreads();
  if (thread >= 2) return;
  uint64_t sum = 0;
#pragma unroll
  for (int warp = 0; warp < kDigestWarps; ++warp) sum += shared[warp][thread];
  p.sums[2 * blockIdx.x + thread] = sum;
}

}  // namespace baton::engine::cuda
