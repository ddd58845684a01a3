// Attention of tiles of rows (a row here is one query head of one token), in splits of 256 tokens. Kernels of small
// tiles (16 rows) share a split out among the warps: each computes the scores of a quarter of the tokens, its K
// straight from global memory, then PV of every fourth pair of column tiles, its V from shared memory, where cp.async
// has brought it meanwhile. The kernel of large tiles (64 rows) gives each warp 16 rows, for all of which it reads K
// and V once.
#include "engine/cuda/kernels/attention.cuh"
#include "engine/cuda/kernels/attention_prefill.cuh"

namespace baton::engine::cuda {

extern __shared__ __align__(128) uint8_t attention_shared[];

extern "C" __global__ void __launch_bounds__(kThreads, 2) attention_prefill(const __grid_constant__ AttentionParams p) {
  AwaitKernelsBefore();
  PrefillAttention(p, attention_shared).Compute();
}

extern "C" __global__ void __launch_bounds__(kThreads, 3) attention_decode(const __grid_constant__ AttentionParams p) {
  AwaitKernelsBefore();
  SplitAttention attention(p, attention_shared);
  attention.LoadQuery();
  SplitResult split;
  SplitResult total;
  const int last = attention.last_position() / kSplitTokens;
  const int first = attention.first_seen() / kSplitTokens;
  attention.Compute(first, split);
  // Rows whose window begins in a later split start there.
  bool has[2] = {attention.Sees(0, first), attention.Sees(1, first)};
  total = split;
  for (int i = first + 1; i <= last; ++i) {
    attention.Compute(i, split);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!attention.Sees(half, i)) continue;
      attention.Fold(half, split, !has[half], total);
      has[half] = true;
    }
  }
  attention.StoreOut(total);
}

extern "C" __global__ void __launch_bounds__(kThreads, 3) attention_split(const __grid_constant__ AttentionParams p) {
  AwaitKernelsBefore();
  SplitAttention attention(p, attention_shared);
  const int split = attention.first_seen() / kSplitTokens + static_cast<int>(blockIdx.z);
  if (split > attention.last_position() / kSplitTokens) return;
  attention.LoadQuery();
  SplitResult result;
  attention.Compute(split, result);
  attention.StorePartial(split, result);
}

extern "C" __global__ void __launch_bounds__(kThreads) attention_fold(const __grid_constant__ AttentionParams p) {
  AwaitKernelsBefore();
  const size_t row = blockIdx.x;
  const size_t head = blockIdx.y;
  const int position = p.row_positions[row];
  const int first = FirstSeen(position, p.window) / kSplitTokens;
  const int width = p.head_dim + 2;
  const float* const partial = p.partial + (row * p.heads + head) * p.splits * width;
  const float scale = __fmul_rn(p.scale, kLog2E);
  for (int d = static_cast<int>(threadIdx.x); d < p.head_dim; d += kThreads) {
    const float* split = partial + first % p.splits * width;
    float value = split[d];
    float maximum = split[p.head_dim];
    float sum = split[p.head_dim + 1];
    for (int i = first + 1; i <= position / kSplitTokens; ++i) {
      split = partial + i % p.splits * width;
      const FoldFactors factors = FactorsOf(maximum, split[p.head_dim], scale);
      maximum = factors.maximum;
      sum = factors.Apply(sum, split[p.head_dim + 1]);
      value = factors.Apply(value, split[d]);
    }
    p.out[(row * p.heads + head) * p.head_dim + d] = FloatToBf16(__fmul_rn(value, __fdiv_rn(1.0f, sum)));
  }
}

}  // namespace baton::engine::cuda
