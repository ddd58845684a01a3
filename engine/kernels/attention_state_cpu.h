// Attention: the operands of a step, and the state that a call carries through its splits. A part of attention_cpu.h.
#ifndef BATON_ENGINE_KERNELS_ATTENTION_STATE_CPU_H_
#define BATON_ENGINE_KERNELS_ATTENTION_STATE_CPU_H_

#include "engine/kernels/prefetch.h"

namespace baton::engine::kernels {
namespace {

inline constexpr int kBlock = 16;
inline constexpr int kWord = 4;
// Blocks of K, and of V, that all queries go through before the next blocks, which keeps them in the first-level cache.
// The accumulators of V are loaded and stored once per chunk, so chunks of V are larger.
inline constexpr int kChunkBlocks = 4;
inline constexpr int kValueChunkBlocks = 8;
// At most this many queries are one tile, as in decode, which reads each part of the cache once. Such a tile asks for
// lines kChunkBlocks parts ahead as it goes: a burst for a whole chunk would wait for the memory while nothing is
// computed.
inline constexpr int kStreamedQueries = 4;

enum class Kv { kF32, kBf16, kInt8 };

// Scores are multiplied by log2 e besides the call's scale, so that probabilities are powers of 2.
inline constexpr float kLog2E = 1.44269504f;

// The left side of a dot step (a query's or the probabilities' word, to all lanes) and the right side (a vector of KV
// words). int8 becomes bf16 on the way into registers. Where bf16 pairs are multiplied as two floats, both sides are
// widened: the left one once a call, in memory, the right one once for all queries of a tile. S is Simd; a name of its
// own lets a Simd without a bf16 dot leave it out.
template <Kv kKv, typename S = Simd>
struct Operands {
  static constexpr bool kWiden = kKv != Kv::kF32 && !Simd::kHasBf16Dot;
  // Bytes of one vector of KV words in memory.
  static constexpr int kVectorBytes = kKv == Kv::kInt8 ? 2 * kLanes : kLanes * kWord;
  // Bytes of one step's left side in memory: (odd, even) floats when widened.
  static constexpr int kLeftBytes = kWiden ? 2 * kWord : kWord;

  struct Right {
    Simd::F odd;
    Simd::F even;
    Simd::I word;
  };

  static BATON_INLINE Right Load(const uint8_t* vector) {
    Right r;
    if constexpr (kKv == Kv::kInt8) {
      r.even = Simd::LoadI8(vector);
      r.odd = Simd::LoadI8(vector + kLanes);
      if constexpr (!kWiden) r.word = S::PairBf16(r.even, r.odd);
    } else if constexpr (kWiden) {
      const Simd::I word = Simd::LoadWords(vector);
      r.odd = Simd::HighHalvesAsFloat(word);
      r.even = Simd::LowHalvesAsFloat(word);
    } else {
      r.word = Simd::LoadWords(vector);
    }
    return r;
  }
  // The same with the upper halves zero.
  static BATON_INLINE Right LoadEven(const uint8_t* vector) {
    Right r = Load(vector);
    if constexpr (kWiden) {
      r.odd = Simd::Zero();
    } else {
      r.word = Simd::LowHalves(r.word);
    }
    return r;
  }

  // The same with the lower halves zero.
  static BATON_INLINE Right LoadOdd(const uint8_t* vector) {
    Right r = Load(vector);
    if constexpr (kWiden) {
      r.even = Simd::Zero();
    } else {
      r.word = S::HighHalves(r.word);
    }
    return r;
  }

  static BATON_INLINE Simd::F Step(const Simd::F& acc, const uint8_t* left, const Right& right) {
    if constexpr (kWiden) {
      float odd, even;
      __builtin_memcpy(&odd, left, kWord);
      __builtin_memcpy(&even, left + kWord, kWord);
      return Simd::Fma(Simd::Set1(even), right.even, Simd::Fma(Simd::Set1(odd), right.odd, acc));
    } else if constexpr (kKv != Kv::kF32) {
      return S::DotBf16(acc, Simd::Set1Word(left), right.word);
    } else {
      return Simd::Fma(Simd::AsFloat(Simd::Set1Word(left)), Simd::AsFloat(right.word), acc);
    }
  }

  // Writes the left sides of 16 probabilities, the first token's at `left`; returns what they hold.
  static BATON_INLINE Simd::F StoreProbabilities(uint8_t* left, const Simd::F& p) {
    if constexpr (kWiden) {
      const Simd::F rounded = Simd::RoundBf16(p);
      // The left side holds the odd token first.
      Simd::Store(reinterpret_cast<float*>(left), Simd::SwapPairs(rounded));
      return rounded;
    } else if constexpr (kKv != Kv::kF32) {
      return S::StoreAsBf16(reinterpret_cast<uint16_t*>(left), p);
    } else {
      Simd::Store(reinterpret_cast<float*>(left), p);
      return p;
    }
  }
};

// Everything that one call carries through its splits. A "query" is one head of one row, in the order [row][head].
template <Kv kKv>
struct AttentionState {
  static constexpr int kPerWord = kKv == Kv::kF32 ? 1 : 2;
  static constexpr int kStepsPerBlock = kBlock / kPerWord;
  using Op = Operands<kKv>;
  static constexpr int kProbabilityBytes = kSplitTokens / kPerWord * Op::kLeftBytes;

  const AttentionCall& call;
  float scale;  // to powers of 2
  int queries;
  int key_steps;    // words of a query head
  int vectors;      // of one token's V
  int query_bytes;  // of one query's left sides
  uint8_t* query;   // [queries][key_steps] left sides
  float* scores;    // [queries][256]
  uint8_t* probs;   // [queries][256 / per word] left sides
  float* split;     // [queries][head_dim]
  float* total;     // [queries][head_dim]
  float* max;       // [queries], of the splits so far, not scaled
  float* sum;
  float* split_max;
  float* split_sum;
  // Blocks of the split at hand, and of the call.
  int split_begin = 0;
  int split_end = 0;
  int end = 0;

  explicit AttentionState(const AttentionCall& c) : call(c) {
    scale = c.scale * kLog2E;
    queries = c.query_rows * c.heads_per_kv;
    key_steps = c.head_dim / kPerWord;
    vectors = c.head_dim / kLanes;
    query_bytes = key_steps * Op::kLeftBytes;
    query = c.scratch;
    scores = reinterpret_cast<float*>(query + static_cast<size_t>(queries) * query_bytes);
    float* next = scores + static_cast<size_t>(queries) * kSplitTokens;
    probs = reinterpret_cast<uint8_t*>(next);
    next += static_cast<size_t>(queries) * kProbabilityBytes / sizeof(float);
    split = next;
    next += static_cast<size_t>(queries) * c.head_dim;
    total = next;
    next += static_cast<size_t>(queries) * c.head_dim;
    max = next;
    sum = max + queries;
    split_max = sum + queries;
    split_sum = split_max + queries;
  }

  // Gathers the queries, widened where the steps want it.
  void TakeQueries() const {
    for (int i = 0; i < queries; ++i) {
      const int row = i / call.heads_per_kv;
      const int head = i % call.heads_per_kv;
      const uint8_t* const from = call.query + row * call.query_stride + static_cast<size_t>(head) * key_steps * kWord;
      uint8_t* const to = query + static_cast<size_t>(i) * query_bytes;
      if constexpr (!Op::kWiden) {
        __builtin_memcpy(to, from, static_cast<size_t>(query_bytes));
      } else {
        for (int k = 0; k < key_steps; ++k) {
          uint32_t word;
          __builtin_memcpy(&word, from + k * kWord, kWord);
          const uint32_t widened[2] = {word & 0xffff0000u, word << 16};
          __builtin_memcpy(to + k * Op::kLeftBytes, widened, sizeof(widened));
        }
      }
    }
  }
  // These ask for the chunk from `block` on, which ends at `end` at the latest. Blocks lie apart in the pool, so the
  // hardware does not foresee them.
  void PrefetchKeys(int block, int end) const {
    for (int b = block; b < end && b < block + kChunkBlocks; ++b) Prefetch(Keys(b));
  }
  void PrefetchValues(int block, int end) const {
    for (int b = block; b < end && b < block + kValueChunkBlocks; ++b) Prefetch(Values(b));
  }
  // Softmax reads them before the values.
  void PrefetchValueScales(int block, int end) const {
    for (int b = block; b < end; ++b) __builtin_prefetch(Scales(Values(b)));
  }
  void Prefetch(const uint8_t* part) const {
    const int scale_bytes = kKv == Kv::kInt8 ? kBlock * static_cast<int>(sizeof(float)) : 0;
    const int bytes = kStepsPerBlock * vectors * Op::kVectorBytes + scale_bytes;
    for (int i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(part + i);
  }
  // Asks for what a streaming tile reads kChunkBlocks parts later: the split's keys, its values, then the next keys.
  const uint8_t* AfterKeys(int block) const {
    const int next = block + kChunkBlocks;
    if (next < split_end) return Keys(next);
    const int value = split_begin + next - split_end;
    return Values(value < split_end ? value : split_end - 1);
  }
  const uint8_t* AfterValues(int block) const {
    const int next = block + kChunkBlocks;
    if (next < split_end) return Values(next);
    return next < end ? Keys(next) : Values(block);
  }
  bool streams() const { return queries <= kStreamedQueries; }
  const uint8_t* Keys(int block) const { return call.keys + call.blocks[block] * call.block_stride; }
  const uint8_t* Values(int block) const { return call.values + call.blocks[block] * call.block_stride; }
  // For int8: a block's scales, one per token.
  const float* Scales(const uint8_t* part) const {
    return reinterpret_cast<const float*>(part + kBlock * call.head_dim);
  }
  // Tokens of the split from `start` that query i may see; <= 0: none.
  int Visible(int i, int start) const {
    const int n = call.first_position + i / call.heads_per_kv + 1 - start;
    return n < kSplitTokens ? n : kSplitTokens;
  }
  // The first position that query i sees.
  int FirstSeen(int i) const {
    const int first = call.first_position + i / call.heads_per_kv + 1 - call.window;
    return call.window == 0 || first < 0 ? 0 : first;
  }
  // Tokens of the split from `start` that lie before query i's window.
  int Hidden(int i, int start) const { return FirstSeen(i) > start ? FirstSeen(i) - start : 0; }
};

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_ATTENTION_STATE_CPU_H_
