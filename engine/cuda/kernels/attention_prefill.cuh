// Attention of one tile of kPrefillTileRows rows, by one CTA. Each warp computes 16 rows by itself. K and V of a
// quarter of a split are a stage in shared memory, which all warps use: those of a split come as up to four stages of
// K, then as many of V, each copied while the one before it is used.
#ifndef BATON_ENGINE_CUDA_KERNELS_ATTENTION_PREFILL_CUH_
#define BATON_ENGINE_CUDA_KERNELS_ATTENTION_PREFILL_CUH_

#include "engine/cuda/kernels/attention_tile.cuh"

namespace baton::engine::cuda {
namespace {

constexpr int kMostDepthSteps = kMostHeadDim / 16;
constexpr int kQuerySteps = kMostDepthSteps / 2;
constexpr int kQuarterPages = kQuarterTokens / kPageTokens;
static_assert(kQuarterPages == kThreads / kWarp, "a warp copies a page of each stage");
static_assert(kPrefillTileRows == kThreads / kWarp * kTileRows);

class PrefillAttention : public AttentionTile {
 public:
  __device__ __forceinline__ PrefillAttention(const AttentionParams& p, uint8_t* shared)
      : AttentionTile(p, static_cast<int>(threadIdx.x) / kWarp * kTileRows),
        key_stride_(p.head_dim + kKeyPadding),
        value_stride_(p.head_dim + kValuePadding),
        stages_(reinterpret_cast<Bf16*>(shared)),
        totals_(reinterpret_cast<float4*>(Stage(2)) + threadIdx.x),
        states_(reinterpret_cast<float2*>(Stage(2) + kPrefillTileRows * p.head_dim * 2) + threadIdx.x),
        next_(first_quarter()) {
    const int first = first_row_ / heads_per_kv();
    if (first >= tile_.row_count) return;
    const int last = min((first_row_ + kTileRows - 1) / heads_per_kv(), tile_.row_count - 1);
    first_of_warp_ = FirstSeen(tile_.first_position + first, p.window);
    last_of_warp_ = tile_.first_position + last;
  }

  __device__ __forceinline__ void Compute() {
    CopyStage();
    const int first = first_seen() / kSplitTokens;
    for (int split = first; split <= last_position() / kSplitTokens; ++split) {
      Scores scores[kQuarters] = {};
      ComputeScores(split, scores);
      float maximum[2] = {kLowest, kLowest};
      float sum[2] = {0.0f, 0.0f};
      Probabilities p[kQuarters];
      Weigh(split, scores, maximum, sum, p);
      float values[kMostDepthSteps][2][4] = {};
      AddValues(split, p, values);
      if (has_rows()) Fold(split, split == first, maximum, sum, values);
    }
    if (has_rows()) StoreOut();
  }

 private:
  // Of a quarter's tokens, as the mma of scores gives them; p rounded, as the mma of PV takes them.
  struct Scores {
    float tiles[kTokenTiles][4];
  };
  struct Probabilities {
    uint32_t steps[kQuarterTokens / 16][4];
  };

  __device__ __forceinline__ int first_quarter() const { return first_seen() / kQuarterTokens; }
  __device__ __forceinline__ int last_quarter() const { return last_position() / kQuarterTokens; }
  __device__ __forceinline__ bool has_rows() const { return last_of_warp_ >= 0; }
  // Whether a row of the tile sees a token of the quarter, which is then a stage; and whether one of this warp does.
  __device__ __forceinline__ bool IsStage(int quarter) const {
    return quarter >= first_quarter() && quarter <= last_quarter();
  }
  __device__ __forceinline__ bool IsNeeded(int quarter) const {
    return quarter * kQuarterTokens <= last_of_warp_ && (quarter + 1) * kQuarterTokens > first_of_warp_;
  }

  __device__ __forceinline__ Bf16* Stage(int place) const { return stages_ + place * kQuarterTokens * key_stride_; }

  // A token that no row of the tile sees becomes zero.
  __device__ __forceinline__ void CopyQuarter(int quarter, bool value) const {
    const int page = quarter * kQuarterPages + warp_;
    const bool is_seen = page * kPageTokens <= last_position() && (page + 1) * kPageTokens > first_seen();
    const Bf16* const from = is_seen ? Page(page, value) : p_.query;
    const int stride = value ? value_stride_ : key_stride_;
    Bf16* const to = Stage(place_) + warp_ * kPageTokens * stride;
    // As many tokens at a time as the lanes have chunks of 16 bytes for.
    const int chunks = p_.head_dim / 8;
    const int together = kWarp / chunks;
    const int own = lane_ / chunks;
    const int d = lane_ % chunks * 8;
    for (int slot = own; own < together && slot < kPageTokens; slot += together) {
      const bool present = is_seen && IsSeen(page * kPageTokens + slot);
      CopyAsync16(SharedAddress(to + slot * stride + d), present ? from + slot * p_.head_dim + d : p_.query, present);
    }
    CommitCopies();
  }

  // Starts the copy of the stage behind the last one.
  __device__ __forceinline__ void CopyStage() {
    if (next_ > last_quarter()) return;
    CopyQuarter(next_, next_is_value_);
    if ((next_ + 1) % kQuarters != 0 && next_ < last_quarter()) {
      ++next_;
    } else if (next_is_value_) {
      ++next_;
      next_is_value_ = false;
    } else {
      next_ = max(next_ / kQuarters * kQuarters, first_quarter());
      next_is_value_ = true;
    }
  }

  // The next stage, which stays until the one after it is taken. Every warp of the CTA takes every stage.
  __device__ __forceinline__ const Bf16* TakeStage() {
    WaitForCopies<0>();
    // Also: every warp has used the stage that the next copy overwrites.
    __syncthreads();
    const Bf16* const stage = Stage(place_);
    place_ ^= 1;
    CopyStage();
    return stage;
  }

  // This lane's part of both rows: 4 elements of every 16 of head_dim, from `first` on.
  __device__ __forceinline__ void LoadQuery(int first, uint32_t (&query)[kQuerySteps][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Bf16* const from = p_.query + HeadOfRow(RowOf(half)) * p_.head_dim + first + lane_ % 4 * 4;
#pragma unroll
      for (int i = 0; i < kQuerySteps; ++i) {
        if (first + i * 16 >= p_.head_dim) break;
        const uint2 x = position_[half] < 0 ? make_uint2(0, 0) : Load8(from + i * 16);
        query[i][half] = x.x;
        query[i][half + 2] = x.y;
      }
    }
  }

  // Adds the products of the elements that LoadQuery gave.
  __device__ __forceinline__ void AddScores(int first, const uint32_t (&query)[kQuerySteps][4], const Bf16* keys,
                                            Scores& scores) const {
#pragma unroll
    for (int i = 0; i < kQuerySteps; ++i) {
      if (first + i * 16 >= p_.head_dim) break;
      const uint32_t(&a)[4] = query[i];
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j) {
        const uint2 key = *reinterpret_cast<const uint2*>(keys + j * 8 * key_stride_ + first + i * 16);
        Mma(scores.tiles[j], a[0], a[1], a[2], a[3], key.x, key.y);
      }
    }
  }

  // Registers hold the query of half the longest head_dim at a time.
  __device__ __forceinline__ void ComputeScores(int split, Scores (&scores)[kQuarters]) {
    uint32_t query[kQuerySteps][4];
    LoadQuery(0, query);
#pragma unroll
    for (int q = 0; q < kQuarters; ++q) {
      const int quarter = split * kQuarters + q;
      if (!IsStage(quarter)) continue;
      const Bf16* const keys = TakeStage() + lane_ / 4 * key_stride_ + lane_ % 4 * 4;
      if (!IsNeeded(quarter)) continue;
      AddScores(0, query, keys, scores[q]);
      if (p_.head_dim <= kQuerySteps * 16) continue;
      LoadQuery(kQuerySteps * 16, query);
      AddScores(kQuerySteps * 16, query, keys, scores[q]);
      if (q + 1 < kQuarters) LoadQuery(0, query);
    }
  }

  // The maximum of the split, p and its sum.
  __device__ __forceinline__ void Weigh(int split, Scores (&scores)[kQuarters], float (&maximum)[2], float (&sum)[2],
                                        Probabilities (&p)[kQuarters]) const {
#pragma unroll
    for (int q = 0; q < kQuarters; ++q) {
      const int quarter = split * kQuarters + q;
      if (!IsNeeded(quarter)) continue;
      ForScores(quarter * kQuarterTokens, scores[q].tiles, [&](int half, float score, int token) {
        if (IsSeenBy(half, token)) maximum[half] = fmaxf(maximum[half], score);
      });
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum[half] = fmaxf(maximum[half], __shfl_xor_sync(kAllLanes, maximum[half], 1));
      maximum[half] = fmaxf(maximum[half], __shfl_xor_sync(kAllLanes, maximum[half], 2));
    }
#pragma unroll
    for (int q = 0; q < kQuarters; ++q) {
      const int quarter = split * kQuarters + q;
      p[q] = {};
      if (!IsNeeded(quarter)) continue;
      ForScores(quarter * kQuarterTokens, scores[q].tiles, [&](int half, float& score, int token) {
        const float x = Exp2(__fmul_rn(__fsub_rn(score, maximum[half]), scale_));
        score = IsSeenBy(half, token) ? x : 0.0f;
      });
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[half] = __fadd_rn(sum[half], SumOfQuarter(scores[q].tiles, half));
#pragma unroll
        for (int j = 0; j < kTokenTiles; ++j) {
          const float(&tile)[4] = scores[q].tiles[j];
          p[q].steps[j / 2][j % 2 * 2 + half] = PackBf16(tile[2 * half], tile[2 * half + 1]);
        }
      }
    }
  }

  // PV of all columns, over the tokens of the split in ascending order.
  __device__ __forceinline__ void AddValues(int split, const Probabilities (&p)[kQuarters],
                                            float (&values)[kMostDepthSteps][2][4]) {
#pragma unroll
    for (int q = 0; q < kQuarters; ++q) {
      const int quarter = split * kQuarters + q;
      if (!IsStage(quarter)) continue;
      const uint32_t from = SharedAddress(TakeStage() + lane_ % 16 * value_stride_ + lane_ / 16 * 8);
      if (!IsNeeded(quarter)) continue;
#pragma unroll
      for (int step = 0; step < kQuarterTokens / 16; ++step) {
        const uint32_t(&a)[4] = p[q].steps[step];
#pragma unroll
        for (int pair = 0; pair < kMostDepthSteps; ++pair) {
          if (pair * 16 >= p_.head_dim) break;
          uint32_t b[4];
          LoadMatricesTransposed(b, from + (step * 16 * value_stride_ + pair * 16) * 2);
          Mma(values[pair][0], a[0], a[1], a[2], a[3], b[0], b[1]);
          Mma(values[pair][1], a[0], a[1], a[2], a[3], b[2], b[3]);
        }
      }
    }
  }

  // Rows whose window begins in a later split start there.
  __device__ __forceinline__ void Fold(int split, bool is_first, const float (&maximum)[2], const float (&sum)[2],
                                       const float (&values)[kMostDepthSteps][2][4]) {
    FoldFactors factors[2];
    bool sees[2] = {}, starts[2] = {};
    const auto fold = [&](int half, float total, float x) {
      return starts[half] ? x : sees[half] ? factors[half].Apply(total, x) : total;
    };
    float2 state[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      starts[half] = is_first || FirstSeen(position_[half], p_.window) / kSplitTokens == split;
      sees[half] = Sees(half, split);
      if (!is_first) state[half] = states_[half * kThreads];
      factors[half] = FactorsOf(state[half].x, maximum[half], scale_);
      state[half].x = starts[half] ? maximum[half] : sees[half] ? factors[half].maximum : state[half].x;
      state[half].y = fold(half, state[half].y, sum[half]);
      states_[half * kThreads] = state[half];
    }
#pragma unroll
    for (int tile = 0; tile < 2 * kMostDepthSteps; ++tile) {
      if (tile * 8 >= p_.head_dim) break;
      const float(&x)[4] = values[tile / 2][tile % 2];
      float4 total = make_float4(x[0], x[1], x[2], x[3]);
      if (!is_first) {
        const float4 before = totals_[tile * kThreads];
        total = make_float4(fold(0, before.x, x[0]), fold(0, before.y, x[1]), fold(1, before.z, x[2]),
                            fold(1, before.w, x[3]));
      }
      totals_[tile * kThreads] = total;
    }
  }

  __device__ __forceinline__ void StoreOut() const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (position_[half] < 0) continue;
      const float inverse = __fdiv_rn(1.0f, states_[half * kThreads].y);
      Bf16* const out = p_.out + HeadOfRow(RowOf(half)) * p_.head_dim + lane_ % 4 * 2;
      for (int tile = 0; tile * 8 < p_.head_dim; ++tile) {
        const float4 total = totals_[tile * kThreads];
        const float x = half == 0 ? total.x : total.z;
        const float y = half == 0 ? total.y : total.w;
        *reinterpret_cast<uint32_t*>(out + tile * 8) = PackBf16(__fmul_rn(x, inverse), __fmul_rn(y, inverse));
      }
    }
  }

  // In elements.
  const int key_stride_;
  const int value_stride_;
  Bf16* const stages_;
  // Of this thread, kThreads apart: columns 2 * (lane mod 4) and the next, of 8, of its first and then its second row.
  float4* const totals_;
  // The same of maximum and sum, of each row.
  float2* const states_;
  // The stage that is copied next, and where the last one was copied to until it is taken.
  int next_;
  bool next_is_value_ = false;
  int place_ = 0;
  // What some row of this warp sees lies between; nothing where it has no row.
  int first_of_warp_ = 0;
  int last_of_warp_ = -1;
};

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_ATTENTION_PREFILL_CUH_
