#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

static_assert(kThreads == 128);
constexpr int kNormStride = kThreads * 4;

__device__ __forceinline__ float4& Four(float* p) { return *reinterpret_cast<float4*>(p); }
__device__ __forceinline__ float4 Four(const float* p) { return *reinterpret_cast<const float4*>(p); }

__device__ __forceinline__ float AddSquares(float sum, const float4& x) {
  sum = __fmaf_rn(x.x, x.x, sum);
  sum = __fmaf_rn(x.y, x.y, sum);
  sum = __fmaf_rn(x.z, x.z, sum);
  return __fmaf_rn(x.w, x.w, sum);
}

// 1 / sqrt(mean + epsilon) from every thread's sum of squares.
__device__ __forceinline__ float RootOfMean(float sum, int width, float epsilon, float* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  // The tree of 128 lanes: 64 and 32 join warps, lane by lane.
  shared[threadIdx.x] = sum;
  __syncthreads();
  float total = __fadd_rn(__fadd_rn(shared[lane], shared[lane + 64]), __fadd_rn(shared[lane + 32], shared[lane + 96]));
  // The next use of `shared` writes only after every warp has read.
  __syncthreads();
  total = SumOfWarp(total);
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(__fdiv_rn(total, static_cast<float>(width)), epsilon)));
}

__device__ __forceinline__ float4 Scaled(const float4& x, float root, const float4& weight) {
  return make_float4(__fmul_rn(__fmul_rn(x.x, root), weight.x), __fmul_rn(__fmul_rn(x.y, root), weight.y),
                     __fmul_rn(__fmul_rn(x.z, root), weight.z), __fmul_rn(__fmul_rn(x.w, root), weight.w));
}

// Adds the branch, and returns the thread's sum of squares of the stream. Each thread reads later what it wrote itself.
__device__ __forceinline__ float AddBranch(const AddNormParams& p, float* residual, const float* branch,
                                           float* shared) {
  float root = 1.0f;
  if (p.post_weight != nullptr) {
    float sum = 0.0f;
    for (int i = static_cast<int>(threadIdx.x) * 4; i < p.width; i += kNormStride) {
      sum = AddSquares(sum, Four(branch + i));
    }
    root = RootOfMean(sum, p.width, p.epsilon, shared);
  }
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x) * 4; i < p.width; i += kNormStride) {
    float4 add = Four(branch + i);
    if (p.post_weight != nullptr) add = Scaled(add, root, Four(p.post_weight + i));
    const float4 x = Four(static_cast<const float*>(residual + i));
    const float4 y =
        make_float4(__fadd_rn(x.x, add.x), __fadd_rn(x.y, add.y), __fadd_rn(x.z, add.z), __fadd_rn(x.w, add.w));
    Four(residual + i) = y;
    sum = AddSquares(sum, y);
  }
  return sum;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) add_norm(const __grid_constant__ AddNormParams p) {
  AwaitKernelsBefore();
  __shared__ float shared[kThreads];
  const size_t row = blockIdx.x;
  const size_t from = p.source != nullptr ? static_cast<size_t>(p.source[row]) : row;
  float* const residual = p.residual + from * p.width;
  float sum = 0.0f;
  if (p.branch != nullptr) {
    sum = AddBranch(p, residual, p.branch + from * p.width, shared);
  } else {
    for (int i = static_cast<int>(threadIdx.x) * 4; i < p.width; i += kNormStride) {
      sum = AddSquares(sum, Four(static_cast<const float*>(residual + i)));
    }
  }
  const float root = RootOfMean(sum, p.width, p.epsilon, shared);
  for (int i = static_cast<int>(threadIdx.x) * 4; i < p.width; i += kNormStride) {
    const float4 y = Scaled(Four(static_cast<const float*>(residual + i)), root, Four(p.weight + i));
    if (p.out_f32 != nullptr) Four(p.out_f32 + row * p.width + i) = y;
    if (p.out != nullptr) {
      *reinterpret_cast<uint2*>(p.out + row * p.width + i) = make_uint2(PackBf16(y.x, y.y), PackBf16(y.z, y.w));
    }
  }
}

}  // namespace baton::engine::cuda
