// The instructions whose results the interpreter has to know, by the engine's own functions for them.
#include "engine/cuda/kernels/device.cuh"
#include "tests/ptx/golden/fragment_kernels.h"

namespace baton::ptx {
namespace {

using engine::cuda::Bf16ToFloat;
using engine::cuda::CommitCopies;
using engine::cuda::CopyAsync16;
using engine::cuda::CopyAsyncFew;
using engine::cuda::Exp2;
using engine::cuda::FloatToBf16;
using engine::cuda::kAllLanes;
using engine::cuda::kWarp;
using engine::cuda::Load4;
using engine::cuda::Load8;
using engine::cuda::LoadMatrices;
using engine::cuda::LoadMatricesTransposed;
using engine::cuda::LoadOnce16;
using engine::cuda::Mma;
using engine::cuda::PackBf16;
using engine::cuda::SharedAddress;
using engine::cuda::SumOfWarp;
using engine::cuda::WaitForCopies;

constexpr int kValues = 8;

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x); }

template <bool kTransposed>
__device__ __forceinline__ void LoadFragment(const FragmentParams& p) {
  __shared__ uint4 rows[kWarp];
  rows[Lane()] = reinterpret_cast<const uint4*>(p.in)[Lane()];
  __syncthreads();
  uint32_t m[4];
  if constexpr (kTransposed) {
    LoadMatricesTransposed(m, SharedAddress(rows + Lane()));
  } else {
    LoadMatrices(m, SharedAddress(rows + Lane()));
  }
  for (int i = 0; i < 4; ++i) p.out[4 * Lane() + i] = m[i];
}

}  // namespace

// In: a 4, b 2, c 4. Out: d 4.
extern "C" __global__ void fragment_mma(const __grid_constant__ FragmentParams p) {
  const uint32_t* const in = p.in + 10 * Lane();
  float d[4];
  for (int i = 0; i < 4; ++i) d[i] = __uint_as_float(in[6 + i]);
  Mma(d, in[0], in[1], in[2], in[3], in[4], in[5]);
  for (int i = 0; i < 4; ++i) p.out[4 * Lane() + i] = __float_as_uint(d[i]);
}

// In: a row of 16 bytes. Out: 4.
extern "C" __global__ void fragment_ldmatrix(const __grid_constant__ FragmentParams p) { LoadFragment<false>(p); }
extern "C" __global__ void fragment_ldmatrix_trans(const __grid_constant__ FragmentParams p) { LoadFragment<true>(p); }

// In: 8 floats. Out: 4 pairs of bf16.
extern "C" __global__ void fragment_round(const __grid_constant__ FragmentParams p) {
  const uint32_t* const in = p.in + kValues * Lane();
  for (int i = 0; i < kValues; i += 2) {
    p.out[kValues / 2 * Lane() + i / 2] = PackBf16(__uint_as_float(in[i]), __uint_as_float(in[i + 1]));
  }
}

// In and out: 8 floats.
extern "C" __global__ void fragment_exp2(const __grid_constant__ FragmentParams p) {
  for (int i = kValues * Lane(); i < kValues * (Lane() + 1); ++i) {
    p.out[i] = __float_as_uint(Exp2(__uint_as_float(p.in[i])));
  }
}

// In: a, b, c. Out: a / b, the root of |a|, fma(a, b, c), a * b, a + c.
extern "C" __global__ void fragment_arithmetic(const __grid_constant__ FragmentParams p) {
  const uint32_t* const in = p.in + 3 * Lane();
  uint32_t* const out = p.out + 5 * Lane();
  const float a = __uint_as_float(in[0]), b = __uint_as_float(in[1]), c = __uint_as_float(in[2]);
  out[0] = __float_as_uint(__fdiv_rn(a, b));
  out[1] = __float_as_uint(__fsqrt_rn(fabsf(a)));
  out[2] = __float_as_uint(__fmaf_rn(a, b, c));
  out[3] = __float_as_uint(__fmul_rn(a, b));
  out[4] = __float_as_uint(__fadd_rn(a, c));
}

// In: 1. Out: 5 exchanges, one of a lane that each lane names, and who has an odd word.
extern "C" __global__ void fragment_shuffle(const __grid_constant__ FragmentParams p) {
  const uint32_t x = p.in[Lane()];
  uint32_t* out = p.out + 7 * Lane();
  for (int width = kWarp / 2; width > 0; width /= 2) *out++ = __shfl_xor_sync(kAllLanes, x, width);
  *out++ = __shfl_sync(kAllLanes, x, (7 * Lane() + 3) % kWarp);
  *out = __ballot_sync(kAllLanes, x % 2 == 1);
}

// In: 4 floats. Out: a load of all 4, one of the last 2, one of the second; the first's sum over the warp, and the
// first as bf16 and back.
extern "C" __global__ void fragment_loads(const __grid_constant__ FragmentParams p) {
  const uint32_t* const in = p.in + 4 * Lane();
  uint32_t* const out = p.out + 9 * Lane();
  const uint4 all = LoadOnce16(in);
  const uint2 last = Load8(in + 2);
  out[0] = all.x;
  out[1] = all.y;
  out[2] = all.z;
  out[3] = all.w;
  out[4] = last.x;
  out[5] = last.y;
  out[6] = Load4(in + 1);
  out[7] = __float_as_uint(SumOfWarp(__uint_as_float(in[0])));
  out[8] = __float_as_uint(Bf16ToFloat(FloatToBf16(__uint_as_float(in[0]))));
}

// In: 4. Out: 4 copied whole where the lane is no multiple of 3, and 2 where it is odd; zeros elsewhere.
extern "C" __global__ void fragment_async(const __grid_constant__ FragmentParams p) {
  __shared__ uint4 wide[kWarp];
  __shared__ uint2 narrow[kWarp];
  const uint32_t* const in = p.in + 4 * Lane();
  CopyAsync16(SharedAddress(wide + Lane()), in, Lane() % 3 != 0);
  CommitCopies();
  CopyAsyncFew<8>(SharedAddress(narrow + Lane()), in + 2, Lane() % 2 == 1);
  CommitCopies();
  uint32_t* const out = p.out + 6 * Lane();
  WaitForCopies<1>();
  out[0] = wide[Lane()].x;
  out[1] = wide[Lane()].y;
  out[2] = wide[Lane()].z;
  out[3] = wide[Lane()].w;
  WaitForCopies<0>();
  out[4] = narrow[Lane()].x;
  out[5] = narrow[Lane()].y;
}

}  // namespace baton::ptx
