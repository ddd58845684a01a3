// engine/philox.h and DetExp of common/det_math.h, bit for bit.
#ifndef BATON_ENGINE_CUDA_KERNELS_RANDOM_CUH_
#define BATON_ENGINE_CUDA_KERNELS_RANDOM_CUH_

#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

// UniformDraw of choice 0, draw 0.
__device__ __forceinline__ float UniformDraw(uint64_t seed, uint32_t position) {
  uint32_t x[4] = {0, position, 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * x[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * x[2];
    x[0] = static_cast<uint32_t>(b >> 32) ^ x[1] ^ key[0];
    x[1] = static_cast<uint32_t>(b);
    x[2] = static_cast<uint32_t>(a >> 32) ^ x[3] ^ key[1];
    x[3] = static_cast<uint32_t>(a);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return __fmul_rn(static_cast<float>(x[0] >> 8), 0x1p-24f);
}

__device__ __forceinline__ float DetExp(float x) {
  if (!(x >= -87.0f)) return 0.0f;
  x = x > 88.0f ? 88.0f : x;
  constexpr float kRound = 12582912.0f;
  const float n = __fsub_rn(__fadd_rn(__fmul_rn(x, 1.44269504f), kRound), kRound);
  const float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, 0.693359375f)), __fmul_rn(n, -2.12194440e-4f));
  float p = __fadd_rn(__fmul_rn(r, 1.0f / 5040), 1.0f / 720);
  constexpr float kTaylor[] = {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
#pragma unroll
  for (const float term : kTaylor) p = __fadd_rn(__fmul_rn(p, r), term);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(__fadd_rn(n, kRound)) << 23));
}

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_RANDOM_CUH_
