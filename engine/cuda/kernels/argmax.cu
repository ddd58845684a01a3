#include "engine/cuda/kernels/key.cuh"

namespace baton::engine::cuda {

extern "C" __global__ void __launch_bounds__(kRowThreads, 1) argmax(const __grid_constant__ ArgmaxParams p) {
  AwaitKernelsBefore();
  __shared__ uint64_t shared[kRowWarps];
  const uint64_t key = LeastKey(p.logits + static_cast<size_t>(blockIdx.x) * p.vocab, p.vocab, shared);
  if (threadIdx.x == 0) p.tokens[blockIdx.x] = TokenOf(key);
}

}  // namespace baton::engine::cuda
