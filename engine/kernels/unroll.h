// Full unrolling of loops with constant bounds, so that arrays of vectors live in registers.
#ifndef BATON_ENGINE_KERNELS_UNROLL_H_
#define BATON_ENGINE_KERNELS_UNROLL_H_

#if defined(__clang__)
#define BATON_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BATON_UNROLL _Pragma("GCC unroll 32")
#endif

#define BATON_INLINE inline __attribute__((always_inline))

#endif  // BATON_ENGINE_KERNELS_UNROLL_H_
