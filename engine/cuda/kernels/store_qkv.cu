#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

// Most elements of a head that a lane holds.
constexpr int kMostHeld = kMostHeadDim / kWarp;

// x[i] = (x[i] * root) * weight[i] for the head's elements of this lane: lane, lane + 32, ...
__device__ __forceinline__ void NormHead(float* x, const float* weight, int head_dim, float epsilon) {
  const int lane = static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  for (int i = lane; i < head_dim; i += kWarp) sum = __fmaf_rn(x[i], x[i], sum);
  sum = SumOfWarp(sum);
  const float root = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(__fdiv_rn(sum, static_cast<float>(head_dim)), epsilon)));
  for (int i = lane; i < head_dim; i += kWarp) x[i] = __fmul_rn(__fmul_rn(x[i], root), weight[i]);
}

// Rotates a head in shared memory; each lane owns pairs.
__device__ __forceinline__ void RotateHead(float* x, const float2* rotation, int head_dim, bool neighbours) {
  for (int i = static_cast<int>(threadIdx.x); i < head_dim / 2; i += kWarp) {
    const int first = neighbours ? 2 * i : i;
    const int second = neighbours ? 2 * i + 1 : i + head_dim / 2;
    const float2 r = rotation[i];
    const float x0 = x[first];
    const float x1 = x[second];
    x[first] = __fmaf_rn(x0, r.x, -__fmul_rn(x1, r.y));
    x[second] = __fmaf_rn(x1, r.x, __fmul_rn(x0, r.y));
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kWarp) store_qkv(const __grid_constant__ StoreQkvParams p) {
  AwaitKernelsBefore();
  __shared__ float x[kMostHeld * kWarp];
  const int lane = static_cast<int>(threadIdx.x);
  const size_t row = blockIdx.x;
  const int part = static_cast<int>(blockIdx.y);
  const size_t parts = static_cast<size_t>(p.heads + 2 * p.kv_heads);
  const bool is_query = part < p.heads;
  const bool is_value = part >= p.heads + p.kv_heads;
  const float* const from = p.qkv + (row * parts + part) * p.head_dim;
  for (int i = lane; i < p.head_dim; i += kWarp) x[i] = from[i];
  if (!is_value) {
    const float* const weight = is_query ? p.query_norm : p.key_norm;
    if (weight != nullptr) NormHead(x, weight, p.head_dim, p.epsilon);
    __syncwarp();
    const auto* const rotation = reinterpret_cast<const float2*>(p.rotation) + row * (p.head_dim / 2);
    RotateHead(x, rotation, p.head_dim, p.rope_neighbours != 0);
  }
  __syncwarp();
  Bf16* to;
  if (is_query) {
    to = p.query + (row * p.heads + part) * p.head_dim;
  } else {
    // K's heads, then V's.
    const size_t token = static_cast<size_t>(part - p.heads) * kPageTokens + p.row_slots[row];
    to = reinterpret_cast<Bf16*>(p.pool + static_cast<size_t>(p.row_blocks[row]) * p.block_bytes) + token * p.head_dim;
  }
  for (int i = 2 * lane; i < p.head_dim; i += 2 * kWarp) {
    *reinterpret_cast<uint32_t*>(to + i) = PackBf16(x[i], x[i + 1]);
  }
}

}  // namespace baton::engine::cuda
