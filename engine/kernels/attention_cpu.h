// Attention: body over Simd, once for each type of KV. Included once by each instruction set's file.
//
// The types share one shape: the KV is vectors of 16 words of 4 bytes, the query and the probabilities are words, and
// a step multiplies a word with a vector into an accumulator. Work is tiled for registers; each accumulator runs
// through its steps in ascending order, so tiling never shows in the bits.
#ifndef BATON_ENGINE_KERNELS_ATTENTION_CPU_H_
#define BATON_ENGINE_KERNELS_ATTENTION_CPU_H_

#include "engine/kernels/attention_state_cpu.h"
#include "engine/kernels/elementwise_cpu.h"
#include "engine/kernels/prefetch.h"

namespace baton::engine::kernels {
namespace {

template <Kv kKv, int kQueries, int kBlocks>
BATON_INLINE void ScoreTile(const AttentionState<kKv>& s, int first, int block, float* scores) {
  using Op = Operands<kKv>;
  const uint8_t* const query = s.query + static_cast<size_t>(first) * s.query_bytes;
  const uint8_t* keys[kBlocks];
  BATON_UNROLL for (int b = 0; b < kBlocks; ++b) keys[b] = s.Keys(block + b);
  Simd::F acc[kQueries][kBlocks];
  BATON_UNROLL for (int q = 0; q < kQueries; ++q) {
    BATON_UNROLL for (int b = 0; b < kBlocks; ++b) acc[q][b] = Simd::Zero();
  }
  constexpr bool kStreams = kQueries <= kStreamedQueries;
  const uint8_t* ahead[kBlocks];
  if constexpr (kStreams) {
    BATON_UNROLL for (int b = 0; b < kBlocks; ++b) {
      ahead[b] = s.AfterKeys(block + b);
      if constexpr (kKv == Kv::kInt8) __builtin_prefetch(s.Scales(ahead[b]));
    }
  }
  for (int k = 0; k < s.key_steps; ++k) {
    typename Op::Right key[kBlocks];
    BATON_UNROLL for (int b = 0; b < kBlocks; ++b) {
      key[b] = Op::Load(keys[b] + k * Op::kVectorBytes);
      if constexpr (kStreams) PrefetchToSecondLevel(ahead[b] + k * Op::kVectorBytes);
    }
    BATON_UNROLL for (int q = 0; q < kQueries; ++q) {
      const uint8_t* const left = query + q * s.query_bytes + k * Op::kLeftBytes;
      BATON_UNROLL for (int b = 0; b < kBlocks; ++b) acc[q][b] = Op::Step(acc[q][b], left, key[b]);
    }
  }
  if constexpr (kKv == Kv::kInt8) {
    BATON_UNROLL for (int b = 0; b < kBlocks; ++b) {
      const Simd::F scales = Simd::Load(s.Scales(keys[b]));
      BATON_UNROLL for (int q = 0; q < kQueries; ++q) acc[q][b] = Simd::Mul(acc[q][b], scales);
    }
  }
  BATON_UNROLL for (int q = 0; q < kQueries; ++q) {
    BATON_UNROLL for (int b = 0; b < kBlocks; ++b) Simd::Store(scores + q * kSplitTokens + b * kBlock, acc[q][b]);
  }
}

// Calls fn.operator()<kQueries>(first) for tiles of queries that cover [first, queries).
template <int kMost, typename Fn>
BATON_INLINE void TileQueries(int first, int queries, Fn fn) {
  int q = first;
  const auto tile = [&]<int kQueries>() {
    if constexpr (kQueries <= kMost) {
      for (; queries - q >= kQueries; q += kQueries) fn.template operator()<kQueries>(q);
    }
  };
  tile.template operator()<12>();
  tile.template operator()<6>();
  tile.template operator()<5>();
  tile.template operator()<4>();
  tile.template operator()<3>();
  tile.template operator()<2>();
  tile.template operator()<1>();
}

template <Kv kKv, int kQueries>
void ScoreRows(const AttentionState<kKv>& s, int first, int start, int begin, int blocks) {
  constexpr int kBlocks = kQueries <= Simd::kFewQueries ? Simd::kBlockTileFew : Simd::kBlockTile;
  float* const scores = s.scores + static_cast<size_t>(first) * kSplitTokens;
  int b = begin;
  for (; blocks - b >= kBlocks; b += kBlocks) {
    ScoreTile<kKv, kQueries, kBlocks>(s, first, start / kBlock + b, scores + b * kBlock);
  }
  for (; b < blocks; ++b) ScoreTile<kKv, kQueries, 1>(s, first, start / kBlock + b, scores + b * kBlock);
}

// Queries [first, end) by blocks [begin, blocks) of the split.
template <Kv kKv>
void Scores(const AttentionState<kKv>& s, int first, int end, int start, int begin, int blocks) {
  for (int chunk = begin; chunk < blocks; chunk += kChunkBlocks) {
    const int stop = chunk + kChunkBlocks < blocks ? chunk + kChunkBlocks : blocks;
    if (!s.streams()) s.PrefetchKeys(start / kBlock + stop, start / kBlock + blocks);
    TileQueries<Simd::kQueryTile>(first, end,
                                  [&]<int kQueries>(int q) { ScoreRows<kKv, kQueries>(s, q, start, chunk, stop); });
  }
}

// The tokens [from, end) that a query sees of the split that starts at `start`.
struct SeenTokens {
  int start;
  int from;
  int end;

  // Lanes of tokens [t, t + 16) that are not seen become `rest`.
  BATON_INLINE Simd::F Keep(const Simd::F& x, int t, float rest) const {
    const Simd::F kept = Simd::Keep(x, end - t, rest);
    return t < from ? Simd::KeepFrom(kept, from - t, rest) : kept;
  }
  bool All(int t, int count) const { return t >= from && t + count <= end; }
};

// Turns scores of kVectors vectors from token t on into probabilities. kAll: the query sees every token of them.
template <Kv kKv, int kVectors, bool kAll>
BATON_INLINE void ScoresToProbabilities(const AttentionState<kKv>& s, int i, const SeenTokens& seen, int t,
                                        Simd::F& sum) {
  const float* const scores = s.scores + static_cast<size_t>(i) * kSplitTokens;
  constexpr int kTokenBytes = AttentionState<kKv>::kProbabilityBytes / kSplitTokens;
  uint8_t* const probs = s.probs + static_cast<size_t>(i) * AttentionState<kKv>::kProbabilityBytes;
  const Simd::F top = Simd::Set1(s.split_max[i]);
  const Simd::F scale = Simd::Set1(s.scale);
  Simd::F each[kVectors];
  BATON_UNROLL for (int v = 0; v < kVectors; ++v) {
    each[v] = Simd::Mul(Simd::Sub(Simd::Load(scores + t + v * kLanes), top), scale);
  }
  Exp2Each<kKv == Kv::kF32, kVectors>(each);
  BATON_UNROLL for (int v = 0; v < kVectors; ++v) {
    const int at = t + v * kLanes;
    const auto keep_seen = [&](const Simd::F& x) { return kAll ? x : seen.Keep(x, at, 0.0f); };
    Simd::F p = keep_seen(each[v]);
    if constexpr (kKv == Kv::kInt8) {
      sum = Simd::Add(sum, p);
      // Masked once more: the scale of a token that is not seen may be anything.
      p = keep_seen(Simd::Mul(p, Simd::Load(s.Scales(s.Values((seen.start + at) / kBlock)))));
    }
    p = Operands<kKv>::StoreProbabilities(probs + at * kTokenBytes, p);
    if constexpr (kKv != Kv::kInt8) sum = Simd::Add(sum, p);
  }
}

// Turns scores of one query into probabilities of the tokens that it sees, with zeros for the other tokens from the
// start of the first block to the end of the last.
template <Kv kKv>
void Softmax(const AttentionState<kKv>& s, int i, const SeenTokens& seen) {
  constexpr int kVectors = 4;
  constexpr float kLowest = -3.402823466e38f;
  const float* const scores = s.scores + static_cast<size_t>(i) * kSplitTokens;
  Simd::F max[kVectors];
  BATON_UNROLL for (int v = 0; v < kVectors; ++v) max[v] = Simd::Set1(kLowest);
  const int begin = seen.from / kLanes * kLanes;
  for (int t = begin; t < seen.end;) {
    if (seen.All(t, kVectors * kLanes)) {
      BATON_UNROLL for (int v = 0; v < kVectors; ++v) max[v] = Simd::Max(Simd::Load(scores + t + v * kLanes), max[v]);
      t += kVectors * kLanes;
    } else {
      max[0] = Simd::Max(seen.Keep(Simd::Load(scores + t), t, kLowest), max[0]);
      t += kLanes;
    }
  }
  BATON_UNROLL for (int v = 1; v < kVectors; ++v) max[0] = Simd::Max(max[0], max[v]);
  s.split_max[i] = Simd::ReduceMax(max[0]);
  Simd::F sum = Simd::Zero();
  for (int t = begin; t < seen.end;) {
    if (seen.All(t, kVectors * kLanes)) {
      ScoresToProbabilities<kKv, kVectors, true>(s, i, seen, t, sum);
      t += kVectors * kLanes;
    } else {
      ScoresToProbabilities<kKv, 1, false>(s, i, seen, t, sum);
      t += kLanes;
    }
  }
  s.split_sum[i] = Simd::ReduceSum(sum);
}

// Adds steps [begin, end) of the split that starts at `block` to the accumulators of kQueries queries, vectors
// [vector, vector + kVectors) of their output.
template <Kv kKv, int kQueries, int kVectors>
BATON_INLINE void ValueTile(const AttentionState<kKv>& s, int first, int block, int begin, int end, int vector) {
  using Op = Operands<kKv>;
  constexpr int kSteps = AttentionState<kKv>::kStepsPerBlock;
  constexpr bool kStreams = kQueries <= kStreamedQueries;
  float* const out = s.split + static_cast<size_t>(first) * s.call.head_dim + vector * kLanes;
  const uint8_t* const probs = s.probs + static_cast<size_t>(first) * AttentionState<kKv>::kProbabilityBytes;
  Simd::F acc[kQueries][kVectors];
  BATON_UNROLL for (int q = 0; q < kQueries; ++q) {
    BATON_UNROLL for (int v = 0; v < kVectors; ++v) {
      acc[q][v] = begin == 0 ? Simd::Zero() : Simd::Load(out + q * s.call.head_dim + v * kLanes);
    }
  }
  for (int t = begin; t < end;) {
    const size_t offset = static_cast<size_t>(vector) * Op::kVectorBytes;
    const uint8_t* const values = s.Values(block + t / kSteps) + offset;
    const uint8_t* ahead = nullptr;
    if constexpr (kStreams) ahead = s.AfterValues(block + t / kSteps) + offset;
    const int stop = (t / kSteps + 1) * kSteps < end ? (t / kSteps + 1) * kSteps : end;
    for (; t < stop; ++t) {
      const size_t row = static_cast<size_t>(t % kSteps) * s.vectors * Op::kVectorBytes;
      typename Op::Right value[kVectors];
      BATON_UNROLL for (int v = 0; v < kVectors; ++v) {
        value[v] = Op::Load(values + row + v * Op::kVectorBytes);
        if constexpr (kStreams) PrefetchToSecondLevel(ahead + row + v * Op::kVectorBytes);
      }
      BATON_UNROLL for (int q = 0; q < kQueries; ++q) {
        const uint8_t* const left = probs + q * AttentionState<kKv>::kProbabilityBytes + t * Op::kLeftBytes;
        BATON_UNROLL for (int v = 0; v < kVectors; ++v) acc[q][v] = Op::Step(acc[q][v], left, value[v]);
      }
    }
  }
  BATON_UNROLL for (int q = 0; q < kQueries; ++q) {
    BATON_UNROLL for (int v = 0; v < kVectors; ++v) Simd::Store(out + q * s.call.head_dim + v * kLanes, acc[q][v]);
  }
}

template <Kv kKv, int kQueries>
void ValueRows(const AttentionState<kKv>& s, int first, int block, int begin, int end) {
  constexpr int kVectors = kQueries <= Simd::kFewQueries ? Simd::kValueVectorsFew : Simd::kValueVectors;
  int v = 0;
  for (; s.vectors - v >= kVectors; v += kVectors) ValueTile<kKv, kQueries, kVectors>(s, first, block, begin, end, v);
  for (; v < s.vectors; ++v) ValueTile<kKv, kQueries, 1>(s, first, block, begin, end, v);
}

// Handles a pair of tokens of which query i sees only one: the even one when its neighbour has a later position, or the
// odd one when its neighbour lies before the window. The other token counts as zero.
template <bool kOdd, Kv kKv>
void HalfValue(const AttentionState<kKv>& s, int i, int block, int step) {
  float* const out = s.split + static_cast<size_t>(i) * s.call.head_dim;
  using Op = Operands<kKv>;
  const uint8_t* const left =
      s.probs + static_cast<size_t>(i) * AttentionState<kKv>::kProbabilityBytes + step * Op::kLeftBytes;
  const uint8_t* const row = s.Values(block + step / 8) + static_cast<size_t>(step % 8) * s.vectors * Op::kVectorBytes;
  for (int v = 0; v < s.vectors; ++v) {
    const Simd::F acc = step == 0 ? Simd::Zero() : Simd::Load(out + v * kLanes);
    const uint8_t* const vector = row + v * Op::kVectorBytes;
    Simd::Store(out + v * kLanes, Op::Step(acc, left, kOdd ? Op::LoadOdd(vector) : Op::LoadEven(vector)));
  }
}

// Query i's steps from its window's start to `end`, on accumulators that are zero.
template <Kv kKv>
void WindowStart(const AttentionState<kKv>& s, int i, int start, int end) {
  constexpr int kPerWord = AttentionState<kKv>::kPerWord;
  const int from = s.Hidden(i, start);
  if constexpr (kPerWord == 2) {
    if (from % 2 != 0) HalfValue<true>(s, i, start / kBlock, from / 2);
  }
  const int begin = (from + kPerWord - 1) / kPerWord;
  if (begin < end) ValueRows<kKv, 1>(s, i, start / kBlock, begin, end);
}

template <Kv kKv>
void WeighValues(const AttentionState<kKv>& s, int first, int last, int start) {
  constexpr int kPerWord = AttentionState<kKv>::kPerWord;
  const int block = start / kBlock;
  // The first and the last token that a row sees grow with the row, so these steps are whole for every query.
  const int hidden = s.Hidden(last - 1, start);
  const int begin = (hidden + kPerWord - 1) / kPerWord;
  const int visible = s.Visible(first, start) / kPerWord;
  const int common = visible > begin ? visible : begin;
  if (hidden > 0) {
    const size_t size = static_cast<size_t>(s.call.head_dim);
    __builtin_memset(s.split + first * size, 0, (last - first) * size * sizeof(float));
    for (int q = first; q < last; ++q) {
      const int own = s.Visible(q, start) / kPerWord;
      WindowStart(s, q, start, own < begin ? own : begin);
    }
  }
  constexpr int kSteps = AttentionState<kKv>::kStepsPerBlock;
  constexpr int kChunkSteps = kValueChunkBlocks * kSteps;
  for (int chunk = begin; chunk < common;) {
    const int next = (chunk / kChunkSteps + 1) * kChunkSteps;
    const int stop = next < common ? next : common;
    if (!s.streams()) s.PrefetchValues(block + next / kSteps, block + (common + kSteps - 1) / kSteps);
    TileQueries<Simd::kQueryTile>(first, last,
                                  [&]<int kQueries>(int q) { ValueRows<kKv, kQueries>(s, q, block, chunk, stop); });
    chunk = stop;
  }
  for (int q = first; q < last; ++q) {
    const int n = s.Visible(q, start);
    if (n / kPerWord > common) ValueRows<kKv, 1>(s, q, block, common, n / kPerWord);
    if constexpr (kPerWord == 2) {
      if (n % 2 != 0) HalfValue<false>(s, q, block, n / 2);
    }
  }
}

BATON_INLINE float Exp2One(float x) {
  Simd::F each = Simd::Set1(x);
  Exp2Each<true, 1>(&each);
  return Simd::First(each);
}

// Folds the split of query i into its total.
template <Kv kKv>
void Fold(const AttentionState<kKv>& s, int i, bool is_first) {
  const float* const split = s.split + static_cast<size_t>(i) * s.call.head_dim;
  float* const total = s.total + static_cast<size_t>(i) * s.call.head_dim;
  if (is_first) {
    s.max[i] = s.split_max[i];
    s.sum[i] = s.split_sum[i];
    for (int d = 0; d < s.call.head_dim; d += kLanes) Simd::Store(total + d, Simd::Load(split + d));
    return;
  }
  const float max = s.max[i] > s.split_max[i] ? s.max[i] : s.split_max[i];
  const float a = Exp2One((s.max[i] - max) * s.scale);
  const float b = Exp2One((s.split_max[i] - max) * s.scale);
  s.max[i] = max;
  s.sum[i] = __builtin_fmaf(s.split_sum[i], b, s.sum[i] * a);
  for (int d = 0; d < s.call.head_dim; d += kLanes) {
    const Simd::F scaled = Simd::Mul(Simd::Load(total + d), Simd::Set1(a));
    Simd::Store(total + d, Simd::Fma(Simd::Load(split + d), Simd::Set1(b), scaled));
  }
}

template <Kv kKv>
void Attention(const AttentionCall& call) {
  AttentionState<kKv> s(call);
  const int last_position = call.first_position + call.query_rows - 1;
  s.end = last_position / kBlock + 1;
  s.PrefetchKeys(s.FirstSeen(0) / kBlock, s.end);
  s.TakeQueries();
  for (int start = s.FirstSeen(0) / kSplitTokens * kSplitTokens; start <= last_position; start += kSplitTokens) {
    // The queries that see some of the split.
    int first = 0;
    while (s.Visible(first, start) <= 0) ++first;
    int last = s.queries;
    while (s.FirstSeen(last - 1) >= start + kSplitTokens) --last;
    const int hidden_blocks = s.Hidden(first, start) / kBlock;
    const int blocks = (s.Visible(last - 1, start) + kBlock - 1) / kBlock;
    s.split_begin = start / kBlock + hidden_blocks;
    s.split_end = start / kBlock + blocks;
    if constexpr (kKv == Kv::kInt8) s.PrefetchValueScales(s.split_begin, s.split_end);
    Scores<kKv>(s, first, last, start, hidden_blocks, blocks);
    if (!s.streams()) s.PrefetchValues(s.split_begin, s.split_end);
    for (int i = first; i < last; ++i) Softmax<kKv>(s, i, {start, s.Hidden(i, start), s.Visible(i, start)});
    WeighValues<kKv>(s, first, last, start);
    if (!s.streams()) s.PrefetchKeys(s.split_end, s.end);
    for (int i = first; i < last; ++i) Fold<kKv>(s, i, s.FirstSeen(i) / kSplitTokens * kSplitTokens == start);
  }
  for (int i = 0; i < s.queries; ++i) {
    const Simd::F inverse = Simd::Set1(1.0f / s.sum[i]);
    const float* const total = s.total + static_cast<size_t>(i) * call.head_dim;
    float* const out = call.out + (i / call.heads_per_kv) * call.out_stride +
                       static_cast<size_t>(i % call.heads_per_kv) * call.head_dim;
    for (int d = 0; d < call.head_dim; d += kLanes) Simd::Store(out + d, Simd::Mul(Simd::Load(total + d), inverse));
  }
}

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_ATTENTION_CPU_H_
