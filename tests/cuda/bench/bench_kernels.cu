#include "tests/cuda/bench/bench_kernels.h"

namespace baton::engine::cuda {
namespace {

constexpr int kReadsInFlight = 8;
// What the words of a thread hardly ever add up to.
constexpr uint32_t kUnlikely = 0x9e3779b9u;

__device__ __forceinline__ uint32_t Scramble(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

__device__ __forceinline__ uint32_t Folded(const uint4& x) { return x.x ^ x.y ^ x.z ^ x.w; }

__device__ __forceinline__ uint64_t FirstWord() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

__device__ __forceinline__ uint64_t WordStride() { return uint64_t{gridDim.x} * blockDim.x; }

}  // namespace

extern "C" __global__ void __launch_bounds__(kBenchThreads) bench_fill(const __grid_constant__ BenchFillParams p) {
  constexpr uint32_t kSignsAndMantissas = 0x807f807fu;
  const uint32_t bases = p.base << 16 | p.base;
  for (uint64_t i = FirstWord(); i < p.words; i += WordStride()) {
    uint32_t pairs[4];
    for (uint32_t j = 0; j < 4; ++j) {
      pairs[j] = (Scramble(static_cast<uint32_t>(i) * 4 + j + p.seed) & kSignsAndMantissas) | bases;
    }
    static_cast<uint4*>(p.to)[i] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

extern "C" __global__ void __launch_bounds__(kBenchThreads) bench_read(const __grid_constant__ BenchReadParams p) {
  const uint4* const from = static_cast<const uint4*>(p.from);
  const uint64_t stride = WordStride();
  uint32_t folded = 0;
  uint64_t i = FirstWord();
  for (; i + (kReadsInFlight - 1) * stride < p.words; i += kReadsInFlight * stride) {
    uint4 words[kReadsInFlight];
#pragma unroll
    for (int j = 0; j < kReadsInFlight; ++j) words[j] = __ldg(from + i + j * stride);
#pragma unroll
    for (int j = 0; j < kReadsInFlight; ++j) folded ^= Folded(words[j]);
  }
  for (; i < p.words; i += stride) folded ^= Folded(__ldg(from + i));
  if (folded == kUnlikely) *p.out = folded;
}

}  // namespace baton::engine::cuda
