// A tile of attention as a thread sees it: positions, what they see, and where K and V of a page are.
#ifndef BATON_ENGINE_CUDA_KERNELS_ATTENTION_TILE_CUH_
#define BATON_ENGINE_CUDA_KERNELS_ATTENTION_TILE_CUH_

#include "engine/cuda/kernels/attention_fold.cuh"

namespace baton::engine::cuda {
namespace {

// A thread has parts of two rows of the tile: first_row_ + lane / 4 + 8 * half.
class AttentionTile {
 public:
  // first_row: of the 16 rows that the thread's warp computes.
  __device__ __forceinline__ AttentionTile(const AttentionParams& p, int first_row)
      : p_(p),
        tile_(p.tiles[blockIdx.x]),
        scale_(__fmul_rn(p.scale, kLog2E)),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        first_row_(first_row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = RowOf(half) / heads_per_kv();
      position_[half] = row < tile_.row_count ? tile_.first_position + row : -1;
    }
  }

  // What some row of the tile sees lies between.
  __device__ __forceinline__ int first_seen() const { return FirstSeen(tile_.first_position, p_.window); }
  __device__ __forceinline__ int last_position() const { return tile_.first_position + tile_.row_count - 1; }
  // Whether the row of that half sees a token of the split.
  __device__ __forceinline__ bool Sees(int half, int split) const {
    return split * kSplitTokens <= position_[half] &&
           (split + 1) * kSplitTokens > FirstSeen(position_[half], p_.window);
  }

 protected:
  __device__ __forceinline__ int heads_per_kv() const { return p_.heads / p_.kv_heads; }
  __device__ __forceinline__ int RowOf(int half) const { return first_row_ + lane_ / 4 + 8 * half; }

  // Index of (row, head) in [rows][heads].
  __device__ __forceinline__ size_t HeadOfRow(int row) const {
    const int heads = heads_per_kv();
    return (static_cast<size_t>(tile_.first_row) + row / heads) * p_.heads + blockIdx.y * heads + row % heads;
  }

  // A page's K, or V, of this head.
  __device__ __forceinline__ const Bf16* Page(int page, bool value) const {
    const size_t block = p_.blocks[tile_.first_block + p_.group * tile_.group_stride + page];
    const size_t head = (value ? static_cast<size_t>(p_.kv_heads) : 0) + blockIdx.y;
    return reinterpret_cast<const Bf16*>(p_.pool + block * p_.block_bytes) + head * kPageTokens * p_.head_dim;
  }

  // Whether some row of the tile sees the token. What none sees is not read: it may not be there.
  __device__ __forceinline__ bool IsSeen(int token) const { return token >= first_seen() && token <= last_position(); }
  __device__ __forceinline__ bool IsSeenBy(int half, int token) const {
    return token <= position_[half] && token >= FirstSeen(position_[half], p_.window);
  }

  // Calls fn(half, score, token) for the scores of the tokens from `first` on, as their mma gives them.
  template <typename Fn>
  __device__ __forceinline__ void ForScores(int first, float (&scores)[kTokenTiles][4], Fn fn) const {
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) fn(i / 2, scores[j][i], first + j * 8 + lane_ % 4 * 2 + i % 2);
    }
  }

  const AttentionParams& p_;
  const QueryTile tile_;
  const float scale_;
  const int lane_;
  const int warp_;
  const int first_row_;
  // Of the rows of both halves; -1 where the tile has no such row.
  int position_[2];
};

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_ATTENTION_TILE_CUH_
