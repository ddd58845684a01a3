// 16 lanes as two ymm registers. Included once, by cpu_avx2.cc; internal linkage.
#ifndef BATON_ENGINE_KERNELS_SIMD_AVX2_H_
#define BATON_ENGINE_KERNELS_SIMD_AVX2_H_

#include <immintrin.h>

#include <cstdint>

#include "engine/kernels/kernel_table.h"
#include "engine/kernels/packed_layout.h"
#include "engine/kernels/unroll.h"

namespace baton::engine::kernels {
namespace {

struct Simd {
  struct F {
    __m256 lo, hi;
  };
  struct I {
    __m256i lo, hi;
  };

  static constexpr int kQuantRows = 3;
  static constexpr int kDotRows = 3;
  // From this many rows on nibbles are unpacked to memory first.
  static constexpr int kPanelRows = 12;
  static constexpr int kFloatRows = 4;
  static constexpr int kFloatCols = 1;
  // Queries of an attention tile, and the blocks or vectors beside them. With up to kFewQueries queries there are more
  // blocks or vectors.
  static constexpr int kQueryTile = 5;
  static constexpr int kFewQueries = 3;
  static constexpr int kBlockTile = 1;
  static constexpr int kBlockTileFew = 2;
  static constexpr int kValueVectors = 1;
  static constexpr int kValueVectorsFew = 2;
  static constexpr bool kHasBf16Dot = false;

  static BATON_INLINE F Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static BATON_INLINE F Set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static BATON_INLINE F Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static BATON_INLINE void Store(float* p, F x) {
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
  }
  static BATON_INLINE __m128i Half(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static BATON_INLINE F LoadF16(const uint8_t* p) { return {_mm256_cvtph_ps(Half(p)), _mm256_cvtph_ps(Half(p + 16))}; }
  static BATON_INLINE __m256 WidenBf16(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
  static BATON_INLINE F LoadBf16(const uint8_t* p) { return {WidenBf16(Half(p)), WidenBf16(Half(p + 16))}; }

  static BATON_INLINE F Add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  static BATON_INLINE F Sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  static BATON_INLINE F Mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  static BATON_INLINE F Div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  static BATON_INLINE F Fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static BATON_INLINE F Max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static BATON_INLINE F Min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static BATON_INLINE F Abs(F a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
  }
  static BATON_INLINE F SwapPairs(F a) { return {_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)}; }
  static BATON_INLINE F Keep(F x, int n, float rest) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256 other = _mm256_set1_ps(rest);
    const __m256 lo = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
    const __m256 hi = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lane));
    return {_mm256_blendv_ps(other, x.lo, lo), _mm256_blendv_ps(other, x.hi, hi)};
  }
  static BATON_INLINE F KeepFrom(F x, int n, float rest) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256 other = _mm256_set1_ps(rest);
    const __m256 lo = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
    const __m256 hi = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lane));
    return {_mm256_blendv_ps(x.lo, other, lo), _mm256_blendv_ps(x.hi, other, hi)};
  }
  static BATON_INLINE F SelectLess(F a, F b, F x, F y) {
    return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
            _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
  }
  static BATON_INLINE float ReduceSum(F x) {
    const __m256 a = _mm256_add_ps(x.lo, x.hi);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
  }
  static BATON_INLINE float ReduceMax(F x) {
    const __m256 a = _mm256_max_ps(x.lo, x.hi);
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
  }
  static BATON_INLINE float First(F x) { return _mm256_cvtss_f32(x.lo); }

  static BATON_INLINE I ToInt(F x) { return {_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)}; }
  static BATON_INLINE F ToFloat(I x) { return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)}; }
  static BATON_INLINE __m256 Scale2(__m256 x, __m256i n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(n, 23)));
  }
  static BATON_INLINE F Scale2(F x, I n) { return {Scale2(x.lo, n.lo), Scale2(x.hi, n.hi)}; }
  static BATON_INLINE I Set1Word(const uint8_t* p) {
    int32_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    return {_mm256_set1_epi32(word), _mm256_set1_epi32(word)};
  }
  static BATON_INLINE __m256i LoadInts(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static BATON_INLINE I LoadWords(const uint8_t* p) { return {LoadInts(p), LoadInts(p + 32)}; }
  static BATON_INLINE I LowHalves(I x) {
    const __m256i mask = _mm256_set1_epi32(0xffff);
    return {_mm256_and_si256(x.lo, mask), _mm256_and_si256(x.hi, mask)};
  }
  static BATON_INLINE F AsFloat(I x) { return {_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi)}; }
  static BATON_INLINE F HighHalvesAsFloat(I x) {
    const __m256i mask = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
    return AsFloat({_mm256_and_si256(x.lo, mask), _mm256_and_si256(x.hi, mask)});
  }
  static BATON_INLINE F LowHalvesAsFloat(I x) {
    return AsFloat({_mm256_slli_epi32(x.lo, 16), _mm256_slli_epi32(x.hi, 16)});
  }
  static BATON_INLINE __m256 RoundBf16(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_set1_epi32(0xffff), rounded));
  }
  static BATON_INLINE F RoundBf16(F x) { return {RoundBf16(x.lo), RoundBf16(x.hi)}; }
  // The two packs work inside 128-bit lanes; the permutation puts the quarters in order.
  static BATON_INLINE void StoreBf16(uint16_t* p, F x) {
    const __m256i lo = _mm256_srli_epi32(_mm256_castps_si256(x.lo), 16);
    const __m256i hi = _mm256_srli_epi32(_mm256_castps_si256(x.hi), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
  }
  static BATON_INLINE int32_t SumInts(I x) {
    const __m256i sum8 = _mm256_add_epi32(x.lo, x.hi);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sum8), _mm256_extracti128_si256(sum8, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
  }
  static BATON_INLINE __m128i LoadQuad(const uint8_t* p) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  }
  static BATON_INLINE F LoadU8(const uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(LoadQuad(p))),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(LoadQuad(p + 8)))};
  }
  static BATON_INLINE F LoadI8(const uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(LoadQuad(p))),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(LoadQuad(p + 8)))};
  }
  static BATON_INLINE void StoreInt8(int8_t* p, I a, I b, int32_t (&sums)[2]) {
    const __m256i x = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
    const __m256i y = _mm256_permute4x64_epi64(_mm256_packs_epi32(b.lo, b.hi), 0xd8);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(x, y), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
    sums[0] = SumInts(a);
    sums[1] = SumInts(b);
  }

  // VPMADDUBSW saturates at int16, which these operands cannot reach:
  //   4 bits: nibbles x +-127, a pair is at most 3,810, and 8 pairs add up to 30,480
  //   5 bits: a pair is at most 2 * 31 * 127 = 7,874, and 4 pairs add up to 31,496
  //   6 bits: a pair is at most 2 * 63 * 127 = 16,002, and 2 pairs add up to 32,004
  //   8 bits: |w| x +-127 with w's sign moved to the activation, a pair is at most 2 * 128 * 127 = 32,512
  template <WeightFormat kFormat>
  struct Weights {
    const uint8_t* data;
    const uint8_t* factors;
    BATON_INLINE Weights(const uint8_t* p, const uint8_t* f) : data(p), factors(f) {}

    static BATON_INLINE __m256i Word(const QuantGroup& acts, int row, int k) {
      int32_t word;
      __builtin_memcpy(&word, &acts.q[row][k], sizeof(word));
      return _mm256_set1_epi32(word);
    }

    // GCC would turn the chain of sums into a tree, and spill its leaves.
    static BATON_INLINE __m256i Accumulate(__m256i sum) {
      asm("" : "+x"(sum));
      return sum;
    }

    static BATON_INLINE __m256i Nibbles(__m256i both, bool high) {
      return _mm256_and_si256(high ? _mm256_srli_epi16(both, 4) : both, _mm256_set1_epi8(15));
    }

    // Sums of 16 bits to dots of 32.
    template <int kRows>
    static BATON_INLINE void FinishNibbles(const QuantGroup& acts, int first, __m256i* lo, __m256i* hi) {
      const __m256i ones = _mm256_set1_epi16(1);
      BATON_UNROLL for (int j = 0; j < kRows; ++j) {
        lo[j] = _mm256_madd_epi16(lo[j], ones);
        hi[j] = _mm256_madd_epi16(hi[j], ones);
        if constexpr (kFormat == WeightFormat::kQ4_0) {
          const __m256i offset = _mm256_set1_epi32(acts.neg8_sum[first + j]);
          lo[j] = _mm256_add_epi32(lo[j], offset);
          hi[j] = _mm256_add_epi32(hi[j], offset);
        }
      }
    }

    // Dots of 4-bit weights, both halves together, so that an activation is broadcast once; quants(quad, side) gives
    // the weights of a quad for 8 columns.
    template <int kRows, typename Fn>
    static BATON_INLINE void DotNibbles(const QuantGroup& acts, int first, Fn quants, __m256i* lo, __m256i* hi) {
      BATON_UNROLL for (int j = 0; j < kRows; ++j) lo[j] = hi[j] = _mm256_setzero_si256();
      BATON_UNROLL for (int quad = 0; quad < 8; ++quad) {
        const __m256i w0 = quants(quad, 0);
        const __m256i w1 = quants(quad, 1);
        BATON_UNROLL for (int j = 0; j < kRows; ++j) {
          const __m256i a = Word(acts, first + j, 4 * quad);
          lo[j] = Accumulate(_mm256_add_epi16(lo[j], _mm256_maddubs_epi16(w0, a)));
          hi[j] = Accumulate(_mm256_add_epi16(hi[j], _mm256_maddubs_epi16(w1, a)));
        }
      }
      FinishNibbles<kRows>(acts, first, lo, hi);
    }

    // Unsigned weights of one quad of k, 8 columns from p's on, with the upper bits in place.
    static BATON_INLINE __m256i Quants(const uint8_t* p, int quad) {
      constexpr int kBits = UpperBits(kFormat);
      const __m256i nibble = Nibbles(LoadInts(p + 64 * (quad % 4)), quad >= 4);
      const __m256i upper = LoadInts(p + kNibbleBytes + quad * kBits / 8 * 64);
      // Shifts by 16 bits move bits between bytes too; the mask leaves each byte its own.
      const int shift = 4 - quad * kBits % 8;
      const __m256i moved = shift >= 0 ? _mm256_slli_epi16(upper, shift) : _mm256_srli_epi16(upper, -shift);
      return _mm256_or_si256(nibble, _mm256_and_si256(moved, _mm256_set1_epi8(((1 << kBits) - 1) << 4)));
    }

    // Dots of 5-bit weights with 8 columns; quants(quad) gives the weights of a quad.
    template <int kRows, typename Fn>
    static BATON_INLINE void DotFifths(const QuantGroup& acts, int first, Fn quants, __m256i* dot) {
      BATON_UNROLL for (int j = 0; j < kRows; ++j) {
        const int32_t offset = kFormat == WeightFormat::kQ5_0 ? 2 * acts.neg8_sum[first + j] : 0;
        dot[j] = _mm256_set1_epi32(offset);
      }
      const __m256i ones = _mm256_set1_epi16(1);
      BATON_UNROLL for (int half = 0; half < 8; half += 4) {
        __m256i sum[kRows];
        BATON_UNROLL for (int j = 0; j < kRows; ++j) sum[j] = _mm256_setzero_si256();
        BATON_UNROLL for (int quad = half; quad < half + 4; ++quad) {
          const __m256i w = quants(quad);
          BATON_UNROLL for (int j = 0; j < kRows; ++j) {
            sum[j] = _mm256_add_epi16(sum[j], _mm256_maddubs_epi16(w, Word(acts, first + j, 4 * quad)));
          }
        }
        BATON_UNROLL for (int j = 0; j < kRows; ++j) dot[j] = _mm256_add_epi32(dot[j], _mm256_madd_epi16(sum[j], ones));
      }
    }

    // The same of 6-bit weights and their factors, of which `f` holds 8 for the first 16 of k and, 16 further, 8 for
    // the others.
    template <int kRows, typename Fn>
    static BATON_INLINE void DotSixths(const QuantGroup& acts, int first, const uint8_t* f, Fn quants, __m256i* dot) {
      const __m128i f0 = LoadQuad(f);
      const __m128i f1 = LoadQuad(f + kLanes);
      // -32 * sum of each half times its factor: the sums are there times -8.
      const __m256i both = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(f0, f1));
      BATON_UNROLL for (int j = 0; j < kRows; ++j) {
        int32_t sums;
        __builtin_memcpy(&sums, acts.neg8_halves[first + j], sizeof(sums));
        dot[j] = _mm256_slli_epi32(_mm256_madd_epi16(both, _mm256_set1_epi32(sums)), 2);
      }
      // Each column's factor twice, as int16: it multiplies both sums of pairs.
      const __m256i factor[2] = {_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(f0, f0)),
                                 _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(f1, f1))};
      BATON_UNROLL for (int quad = 0; quad < 8; quad += 2) {
        const __m256i w0 = quants(quad);
        const __m256i w1 = quants(quad + 1);
        BATON_UNROLL for (int j = 0; j < kRows; ++j) {
          const __m256i a = _mm256_maddubs_epi16(w0, Word(acts, first + j, 4 * quad));
          const __m256i b = _mm256_maddubs_epi16(w1, Word(acts, first + j, 4 * quad + 4));
          dot[j] = _mm256_add_epi32(dot[j], _mm256_madd_epi16(_mm256_add_epi16(a, b), factor[quad / 4]));
        }
      }
    }

    // Columns 8 * side and up; quants(quad) gives their weights.
    template <int kRows, typename Fn>
    static BATON_INLINE void DotUpper(const QuantGroup& acts, int first, const uint8_t* factors, int side, Fn quants,
                                      __m256i* dot) {
      if constexpr (kFormat == WeightFormat::kQ6_K) {
        DotSixths<kRows>(acts, first, factors + 8 * side, quants, dot);
      } else {
        DotFifths<kRows>(acts, first, quants, dot);
      }
    }

    // One group unpacked, [8 quads of k][16 columns][4]: what many rows meet is unpacked once.
    static BATON_INLINE void Unpack(const uint8_t* p, uint8_t* panel) {
      if constexpr (UpperBits(kFormat) > 0) {
        BATON_UNROLL for (int i = 0; i < 16; ++i) {
          const __m256i w = Quants(p + i % 2 * 32, i / 2);
          _mm256_store_si256(reinterpret_cast<__m256i*>(panel + 32 * i), w);
        }
      } else {
        BATON_UNROLL for (int i = 0; i < 8; ++i) {
          const __m256i both = LoadInts(p + 32 * i);
          _mm256_store_si256(reinterpret_cast<__m256i*>(panel + 32 * i), Nibbles(both, false));
          _mm256_store_si256(reinterpret_cast<__m256i*>(panel + 256 + 32 * i), Nibbles(both, true));
        }
      }
    }

    // The same as Dot, of an unpacked group.
    template <int kRows>
    static BATON_INLINE void DotPanel(const QuantGroup& acts, int first, const uint8_t* panel, const uint8_t* factors,
                                      I* dot) {
      __m256i lo[kRows], hi[kRows];
      if constexpr (UpperBits(kFormat) > 0) {
        DotUpper<kRows>(
            acts, first, factors, 0, [panel](int quad) { return LoadInts(panel + 64 * quad); }, lo);
        DotUpper<kRows>(
            acts, first, factors, 1, [panel](int quad) { return LoadInts(panel + 64 * quad + 32); }, hi);
      } else {
        DotNibbles<kRows>(
            acts, first, [panel](int quad, int side) { return LoadInts(panel + 64 * quad + 32 * side); }, lo, hi);
      }
      BATON_UNROLL for (int j = 0; j < kRows; ++j) dot[j] = {lo[j], hi[j]};
    }

    template <int kRows>
    BATON_INLINE void Dot(const QuantGroup& acts, int first, I* dot) const {
      __m256i lo[kRows], hi[kRows];
      if constexpr (UpperBits(kFormat) > 0) {
        DotUpper<kRows>(
            acts, first, factors, 0, [this](int quad) { return Quants(data, quad); }, lo);
        DotUpper<kRows>(
            acts, first, factors, 1, [this](int quad) { return Quants(data + 32, quad); }, hi);
      } else if constexpr (kFormat == WeightFormat::kQ8_0) {
        const __m256i ones = _mm256_set1_epi16(1);
        const __m256i offset = _mm256_set1_epi8(static_cast<char>(0x80));
        BATON_UNROLL for (int j = 0; j < kRows; ++j) lo[j] = hi[j] = _mm256_setzero_si256();
        BATON_UNROLL for (int i = 0; i < 8; ++i) {
          const __m256i w0 = _mm256_xor_si256(LoadInts(data + 64 * i), offset);
          const __m256i w1 = _mm256_xor_si256(LoadInts(data + 64 * i + 32), offset);
          const __m256i size0 = _mm256_abs_epi8(w0);
          const __m256i size1 = _mm256_abs_epi8(w1);
          BATON_UNROLL for (int j = 0; j < kRows; ++j) {
            const __m256i a = Word(acts, first + j, 4 * i);
            const __m256i pairs0 = _mm256_maddubs_epi16(size0, _mm256_sign_epi8(a, w0));
            const __m256i pairs1 = _mm256_maddubs_epi16(size1, _mm256_sign_epi8(a, w1));
            lo[j] = Accumulate(_mm256_add_epi32(lo[j], _mm256_madd_epi16(pairs0, ones)));
            hi[j] = Accumulate(_mm256_add_epi32(hi[j], _mm256_madd_epi16(pairs1, ones)));
          }
        }
      } else {
        DotNibbles<kRows>(
            acts, first,
            [this](int quad, int side) { return Nibbles(LoadInts(data + 64 * (quad % 4) + 32 * side), quad >= 4); }, lo,
            hi);
      }
      BATON_UNROLL for (int j = 0; j < kRows; ++j) dot[j] = {lo[j], hi[j]};
    }
  };
};

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_SIMD_AVX2_H_
