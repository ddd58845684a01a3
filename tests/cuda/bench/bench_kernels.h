// The kernels of the benchmark itself: one struct of parameters for each, passed by value. Needs no header of CUDA.
#ifndef BATON_TESTS_CUDA_BENCH_BENCH_KERNELS_H_
#define BATON_TESTS_CUDA_BENCH_BENCH_KERNELS_H_

#include <cstdint>

namespace baton::engine::cuda {

inline constexpr int kBenchThreads = 256;

// Writes `words` words of 16 bytes of bf16: random signs and mantissas beside the bits of `base`, which are sign and
// mantissa 0. Kernel "bench_fill"; any grid, kBenchThreads threads.
struct BenchFillParams {
  void* to;
  uint64_t words;
  uint32_t base;
  uint32_t seed;
};

// Reads `words` words of 16 bytes. Kernel "bench_read"; any grid, kBenchThreads threads.
struct BenchReadParams {
  const void* from;
  uint64_t words;
  // Where what was read ends up, so that no compiler can leave it out; hardly ever written.
  uint32_t* out;
};

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_BENCH_BENCH_KERNELS_H_
