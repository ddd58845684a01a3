// Instructions that CUDA C++ has no word for, and small arithmetic that several kernels share. Compiled with
// -fmad=false: a fused multiply-add stands only where the source says so.
#ifndef BATON_ENGINE_CUDA_KERNELS_DEVICE_CUH_
#define BATON_ENGINE_CUDA_KERNELS_DEVICE_CUH_

#include <cstdint>

#include "engine/cuda/kernels/params.h"
#include "engine/cuda/kernels/shapes.h"

namespace baton::engine::cuda {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr float kLog2E = 1.4426950408889634f;

// Comes first in every kernel, because a launch may begin while the kernel before it still runs (Device::overlaps):
// lets the next one do so in turn, and waits until all before have ended and what they wrote is there to be read.
__device__ __forceinline__ void AwaitKernelsBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ float Bf16ToFloat(Bf16 x) { return __uint_as_float(static_cast<uint32_t>(x) << 16); }

// Rounds to nearest even; a NaN becomes 0x7fff. `low` is the half at the lower address.
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ float HalfToFloat(uint16_t x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

__device__ __forceinline__ Bf16 FloatToBf16(float x) { return static_cast<Bf16>(PackBf16(x, 0.0f) & 0xffffu); }

// 2^x, within 2 ulps; results below 2^-126 are 0.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// d += a * b: a is 16 x 16 (rows lane / 4 and lane / 4 + 8), b 16 x 8, d 16 x 8.
__device__ __forceinline__ void Mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void LoadMatrices(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

// Copies 16 bytes to shared memory, or zeroes them where `present` is not set. `from` is a valid address either way.
__device__ __forceinline__ void CopyAsync16(uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
               "r"(present ? 16 : 0)
               : "memory");
}

// The same of 4 or 8 bytes.
template <int kBytes>
__device__ __forceinline__ void CopyAsyncFew(uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
               "r"(present ? kBytes : 0), "n"(kBytes)
               : "memory");
}

__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most kPending of this thread's groups of copies are under way.
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Loads of weights, which a step reads once: they do not displace what is in the first-level cache.
__device__ __forceinline__ uint4 LoadOnce16(const void* p) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(__cvta_generic_to_global(p)));
  return x;
}

// Narrower loads leave part of a sector to a later load, which then finds it in the first-level cache.
__device__ __forceinline__ uint2 Load8(const void* p) {
  uint2 x;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(__cvta_generic_to_global(p)));
  return x;
}

__device__ __forceinline__ uint32_t Load4(const void* p) {
  uint32_t x;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(x) : "l"(__cvta_generic_to_global(p)));
  return x;
}

// Sum over the lanes of a warp by the tree 16-8-4-2-1; every lane gets it.
__device__ __forceinline__ float SumOfWarp(float x) {
#pragma unroll
  for (int width = kWarp / 2; width > 0; width /= 2) x = __fadd_rn(x, __shfl_xor_sync(kAllLanes, x, width));
  return x;
}

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_DEVICE_CUH_
