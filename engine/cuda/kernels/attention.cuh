// One split of attention for one tile of kTileRows rows, by one CTA.
#ifndef BATON_ENGINE_CUDA_KERNELS_ATTENTION_CUH_
#define BATON_ENGINE_CUDA_KERNELS_ATTENTION_CUH_

#include "engine/cuda/kernels/attention_tile.cuh"

namespace baton::engine::cuda {
namespace {

class SplitAttention : public AttentionTile {
 public:
  __device__ __forceinline__ SplitAttention(const AttentionParams& p, uint8_t* shared)
      : AttentionTile(p, 0),
        query_stride_(p.head_dim + kQueryPadding),
        value_stride_(p.head_dim + kValuePadding),
        query_(reinterpret_cast<Bf16*>(shared)),
        probabilities_(query_ + kTileRows * query_stride_),
        values_(probabilities_ + kTileRows * kProbabilityStride),
        maxima_(reinterpret_cast<float*>(values_ + kSplitTokens * value_stride_)),
        sums_(maxima_ + kQuarters * kTileRows) {}

  __device__ __forceinline__ void LoadQuery() const {
    const int chunks = p_.head_dim / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kTileRows * chunks; i += kThreads) {
      const int row = i / chunks;
      uint4 x = make_uint4(0, 0, 0, 0);
      if (row / heads_per_kv() < tile_.row_count) {
        x = *reinterpret_cast<const uint4*>(p_.query + HeadOfRow(row) * p_.head_dim + i % chunks * 8);
      }
      *reinterpret_cast<uint4*>(query_ + row * query_stride_ + i % chunks * 8) = x;
    }
  }

  // Tokens [256 * split, 256 * split + 256).
  __device__ __forceinline__ void Compute(int split, SplitResult& result) const {
    // The query is there, and no warp reads what the split before left in shared memory.
    __syncthreads();
    CopyValues(split);
    float scores[kTokenTiles][4] = {};
    const int first = split * kSplitTokens + warp_ * kQuarterTokens;
    if (first <= last_position() && first + kQuarterTokens > first_seen()) Scores(first, scores);
    Maxima(first, scores, result);
    Probabilities(first, scores, result);
    WaitForCopies<0>();
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const sums = sums_ + lane_ / 4 + 8 * half;
      result.sum[half] = sums[0];
#pragma unroll
      for (int q = 1; q < kQuarters; ++q) result.sum[half] = __fadd_rn(result.sum[half], sums[q * kTileRows]);
    }
    WeighValues(result);
  }

  __device__ __forceinline__ void Fold(int half, const SplitResult& split, bool is_first, SplitResult& total) const {
    const FoldFactors factors = FactorsOf(total.maximum[half], split.maximum[half], scale_);
    total.maximum[half] = is_first ? split.maximum[half] : factors.maximum;
    total.sum[half] = is_first ? split.sum[half] : factors.Apply(total.sum[half], split.sum[half]);
    ForValues(half, [&](int pair, int tile, int i, int) {
      const float x = split.values[pair][tile][i];
      float& value = total.values[pair][tile][i];
      value = is_first ? x : factors.Apply(value, x);
    });
  }

  __device__ __forceinline__ void StoreOut(const SplitResult& total) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (position_[half] < 0) continue;
      const float inverse = __fdiv_rn(1.0f, total.sum[half]);
      Bf16* const out = p_.out + HeadOfRow(RowOf(half)) * p_.head_dim;
      ForValues(half, [&](int pair, int tile, int i, int d) {
        out[d] = FloatToBf16(__fmul_rn(total.values[pair][tile][i], inverse));
      });
    }
  }

  __device__ __forceinline__ void StorePartial(int split, const SplitResult& result) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (position_[half] < 0 || !Sees(half, split)) continue;
      float* const out = p_.partial + (HeadOfRow(RowOf(half)) * p_.splits + split % p_.splits) * (p_.head_dim + 2);
      ForValues(half, [&](int pair, int tile, int i, int d) { out[d] = result.values[pair][tile][i]; });
      if (warp_ == 0 && lane_ % 4 == 0) {
        out[p_.head_dim] = result.maximum[half];
        out[p_.head_dim + 1] = result.sum[half];
      }
    }
  }

 private:
  // Calls fn(pair, tile, i, column) for the values of a half that this thread holds.
  template <typename Fn>
  __device__ __forceinline__ void ForValues(int half, Fn fn) const {
#pragma unroll
    for (int pair = 0; pair < kMostPairs; ++pair) {
      const int first = (pair * kQuarters + warp_) * 16;
      if (first >= p_.head_dim) break;
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) fn(pair, tile, 2 * half + i, first + tile * 8 + lane_ % 4 * 2 + i);
      }
    }
  }

  // Each warp copies as many tokens at a time as its lanes have chunks of 16 bytes for.
  __device__ __forceinline__ void CopyValues(int split) const {
    const int chunks = p_.head_dim / 8;
    const int together = kWarp / chunks;
    const int own = lane_ / chunks;
    const int d = lane_ % chunks * 8;
    for (int slot = warp_ * together + own; own < together && slot < kSplitTokens; slot += kQuarters * together) {
      const int token = split * kSplitTokens + slot;
      const bool present = IsSeen(token);
      const Bf16* from = p_.query;
      if (present) from = Page(token / kPageTokens, true) + token % kPageTokens * p_.head_dim + d;
      CopyAsync16(SharedAddress(values_ + slot * value_stride_ + d), from, present);
    }
    CommitCopies();
  }

  // Scores of the tile's rows with tokens [first, first + kQuarterTokens). A lane takes 4 elements of every 16 of
  // head_dim: the first two of them count as 2i and 2i + 1 of the mma, the others as 2i + 8 and 2i + 9.
  __device__ __forceinline__ void Scores(int first, float (&scores)[kTokenTiles][4]) const {
    const Bf16* keys[kTokenTiles];
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j) {
      const int token = first + j * 8 + lane_ / 4;
      keys[j] = nullptr;
      if (!IsSeen(token)) continue;
      keys[j] = Page(token / kPageTokens, false) + token % kPageTokens * p_.head_dim + lane_ % 4 * 4;
    }
    const Bf16* const query = query_ + lane_ / 4 * query_stride_ + lane_ % 4 * 4;
#pragma unroll 2
    for (int d = 0; d < p_.head_dim; d += 16) {
      const uint2 top = *reinterpret_cast<const uint2*>(query + d);
      const uint2 bottom = *reinterpret_cast<const uint2*>(query + 8 * query_stride_ + d);
      uint2 key[kTokenTiles];
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j) {
        key[j] = make_uint2(0, 0);
        if (keys[j] != nullptr) key[j] = Load8(keys[j] + d);
      }
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j) Mma(scores[j], top.x, bottom.x, top.y, bottom.y, key[j].x, key[j].y);
    }
  }

  // The maximum over the split of this thread's two rows.
  __device__ __forceinline__ void Maxima(int first, float (&scores)[kTokenTiles][4], SplitResult& result) const {
    float maximum[2] = {kLowest, kLowest};
    ForScores(first, scores, [&](int half, float score, int token) {
      if (IsSeenBy(half, token)) maximum[half] = fmaxf(maximum[half], score);
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum[half] = fmaxf(maximum[half], __shfl_xor_sync(kAllLanes, maximum[half], 1));
      maximum[half] = fmaxf(maximum[half], __shfl_xor_sync(kAllLanes, maximum[half], 2));
      if (lane_ % 4 == 0) maxima_[warp_ * kTileRows + lane_ / 4 + 8 * half] = maximum[half];
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const maxima = maxima_ + lane_ / 4 + 8 * half;
      result.maximum[half] =
          fmaxf(fmaxf(maxima[0], maxima[kTileRows]), fmaxf(maxima[2 * kTileRows], maxima[3 * kTileRows]));
    }
  }

  // Turns scores into probabilities, in shared memory, and into their sum over this warp's quarter.
  __device__ __forceinline__ void Probabilities(int first, float (&scores)[kTokenTiles][4],
                                                const SplitResult& result) const {
    ForScores(first, scores, [&](int half, float& score, int token) {
      const float p = Exp2(__fmul_rn(__fsub_rn(score, result.maximum[half]), scale_));
      score = IsSeenBy(half, token) ? p : 0.0f;
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Bf16* const row = probabilities_ + (lane_ / 4 + 8 * half) * kProbabilityStride + warp_ * kQuarterTokens;
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j) {
        *reinterpret_cast<uint32_t*>(row + j * 8 + lane_ % 4 * 2) =
            PackBf16(scores[j][2 * half], scores[j][2 * half + 1]);
      }
      const float sum = SumOfQuarter(scores, half);
      if (lane_ % 4 == 0) sums_[warp_ * kTileRows + lane_ / 4 + 8 * half] = sum;
    }
  }

  // PV of this warp's columns, over all tokens of the split in ascending order.
  __device__ __forceinline__ void WeighValues(SplitResult& result) const {
    const uint32_t probabilities = SharedAddress(probabilities_ + lane_ % 16 * kProbabilityStride + lane_ / 16 * 8);
    const uint32_t values = SharedAddress(values_ + lane_ % 16 * value_stride_ + lane_ / 16 * 8 + warp_ * 16);
#pragma unroll
    for (int pair = 0; pair < kMostPairs; ++pair) {
#pragma unroll
      for (int i = 0; i < 8; ++i) result.values[pair][i / 4][i % 4] = 0.0f;
    }
#pragma unroll 4
    for (int token = 0; token < kSplitTokens; token += 16) {
      uint32_t a[4];
      LoadMatrices(a, probabilities + token * 2);
#pragma unroll
      for (int pair = 0; pair < kMostPairs; ++pair) {
        if ((pair * kQuarters + warp_) * 16 >= p_.head_dim) break;
        uint32_t b[4];
        LoadMatricesTransposed(b, values + (token * value_stride_ + pair * kQuarters * 16) * 2);
        Mma(result.values[pair][0], a[0], a[1], a[2], a[3], b[0], b[1]);
        Mma(result.values[pair][1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
  }

  // In elements.
  const int query_stride_;
  const int value_stride_;
  Bf16* const query_;
  Bf16* const probabilities_;
  Bf16* const values_;
  // [kQuarters][kTileRows].
  float* const maxima_;
  float* const sums_;
};

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_ATTENTION_CUH_
