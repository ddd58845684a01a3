// 16 lanes as one zmm register. Included once by each AVX512 file; internal linkage. BATON_HAS_BF16_DOT is defined
// where VDPBF16PS may be used.
#ifndef BATON_ENGINE_KERNELS_SIMD_AVX512_H_
#define BATON_ENGINE_KERNELS_SIMD_AVX512_H_

#include <immintrin.h>

#include <cstdint>

#include "engine/kernels/kernel_table.h"
#include "engine/kernels/packed_layout.h"
#include "engine/kernels/unroll.h"

namespace baton::engine::kernels {
namespace {

struct Simd {
  using F = __m512;
  using I = __m512i;

  static constexpr int kQuantRows = 16;
  static constexpr int kDotRows = 4;
  // Weights are unpacked in registers, once for all rows of a tile.
  static constexpr int kPanelRows = 0;
  static constexpr int kFloatRows = 8;
  static constexpr int kFloatCols = 2;
  // Queries of an attention tile, and the blocks or vectors beside them. With up to kFewQueries queries there are more
  // blocks or vectors.
  static constexpr int kQueryTile = 12;
  static constexpr int kFewQueries = 4;
  static constexpr int kBlockTile = 2;
  static constexpr int kBlockTileFew = 4;
  static constexpr int kValueVectors = 2;
  static constexpr int kValueVectorsFew = 4;
#if defined(BATON_HAS_BF16_DOT)
  static constexpr bool kHasBf16Dot = true;
#else
  static constexpr bool kHasBf16Dot = false;
#endif

  static BATON_INLINE F Zero() { return _mm512_setzero_ps(); }
  static BATON_INLINE F Set1(float x) { return _mm512_set1_ps(x); }
  static BATON_INLINE F Load(const float* p) { return _mm512_loadu_ps(p); }
  static BATON_INLINE void Store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static BATON_INLINE F LoadF16(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static BATON_INLINE F LoadBf16(const uint8_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }

  static BATON_INLINE F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static BATON_INLINE F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static BATON_INLINE F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static BATON_INLINE F Div(F a, F b) { return _mm512_div_ps(a, b); }
  static BATON_INLINE F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static BATON_INLINE F Max(F a, F b) { return _mm512_max_ps(a, b); }
  static BATON_INLINE F Min(F a, F b) { return _mm512_min_ps(a, b); }
  static BATON_INLINE F Abs(F a) { return _mm512_abs_ps(a); }
  static BATON_INLINE F SwapPairs(F a) { return _mm512_permute_ps(a, 0xb1); }
  static BATON_INLINE F Keep(F x, int n, float rest) {
    const __mmask16 mask = n >= kLanes ? 0xffff : static_cast<__mmask16>((1u << n) - 1u);
    return _mm512_mask_blend_ps(mask, _mm512_set1_ps(rest), x);
  }
  static BATON_INLINE F KeepFrom(F x, int n, float rest) {
    const __mmask16 mask = n >= kLanes ? 0xffff : static_cast<__mmask16>((1u << n) - 1u);
    return _mm512_mask_blend_ps(mask, x, _mm512_set1_ps(rest));
  }
  static BATON_INLINE F SelectLess(F a, F b, F x, F y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  static BATON_INLINE float ReduceSum(F x) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
  }
  static BATON_INLINE float ReduceMax(F x) {
    const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
  }
  static BATON_INLINE float First(F x) { return _mm512_cvtss_f32(x); }

  static BATON_INLINE I ToInt(F x) { return _mm512_cvtps_epi32(x); }
  static BATON_INLINE F ToFloat(I x) { return _mm512_cvtepi32_ps(x); }
  static BATON_INLINE F Scale2(F x, I n) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(n, 23)));
  }
  static BATON_INLINE I Set1Word(const uint8_t* p) {
    int32_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    return _mm512_set1_epi32(word);
  }
  static BATON_INLINE I LoadWords(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static BATON_INLINE I LowHalves(I x) { return _mm512_and_si512(x, _mm512_set1_epi32(0xffff)); }
  static BATON_INLINE I HighHalves(I x) {
    return _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u)));
  }
  static BATON_INLINE F AsFloat(I x) { return _mm512_castsi512_ps(x); }
  static BATON_INLINE F HighHalvesAsFloat(I x) { return AsFloat(HighHalves(x)); }
  static BATON_INLINE F LowHalvesAsFloat(I x) { return AsFloat(_mm512_slli_epi32(x, 16)); }
  static BATON_INLINE F RoundBf16(F x) {
    const I bits = _mm512_castps_si512(x);
    const I odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const I rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_set1_epi32(0xffff), rounded));
  }
  static BATON_INLINE void StoreBf16(uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x), 16)));
  }
  static BATON_INLINE __m128i LoadBytes(const uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static BATON_INLINE F LoadU8(const uint8_t* p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(LoadBytes(p))); }
  static BATON_INLINE F LoadI8(const uint8_t* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(LoadBytes(p))); }
  static BATON_INLINE void StoreInt8(int8_t* p, I a, I b, int32_t (&sums)[2]) {
    const __m128i bytes_a = _mm512_cvtepi32_epi8(a);
    const __m128i bytes_b = _mm512_cvtepi32_epi8(b);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes_a);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + kLanes), bytes_b);
    const __m128i ones = _mm_set1_epi8(1);
    const __m128i fours_a = _mm_dpbusd_epi32(_mm_setzero_si128(), ones, bytes_a);
    const __m128i fours_b = _mm_dpbusd_epi32(_mm_setzero_si128(), ones, bytes_b);
    const __m128i pairs = _mm_hadd_epi32(fours_a, fours_b);
    const __m128i both = _mm_hadd_epi32(pairs, pairs);
    sums[0] = _mm_cvtsi128_si32(both);
    sums[1] = _mm_extract_epi32(both, 1);
  }
#if defined(BATON_HAS_BF16_DOT)
  // Words of two bf16, of floats that bf16 holds exactly.
  static BATON_INLINE I PairBf16(F low, F high) {
    return _mm512_or_si512(HighHalves(_mm512_castps_si512(high)), _mm512_srli_epi32(_mm512_castps_si512(low), 16));
  }
  // Rounds to nearest even; returns what was stored. x is not denormal.
  static BATON_INLINE F StoreAsBf16(uint16_t* p, F x) {
    const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
  }
  static BATON_INLINE F DotBf16(F acc, I a, I b) { return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b); }
#endif

  // 8 registers: [k / 4][16 columns][4], unsigned.
  template <WeightFormat kFormat>
  struct Weights {
    I w[8];
    const uint8_t* factors;

    BATON_INLINE Weights(const uint8_t* p, const uint8_t* f) : factors(f) {
      if constexpr (kFormat == WeightFormat::kQ8_0) {
        BATON_UNROLL for (int i = 0; i < 8; ++i) w[i] = _mm512_loadu_si512(p + 64 * i);
      } else {
        const I nibble = _mm512_set1_epi8(15);
        BATON_UNROLL for (int i = 0; i < 4; ++i) {
          const I both = _mm512_loadu_si512(p + 64 * i);
          w[i] = _mm512_and_si512(both, nibble);
          w[i + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
        }
        if constexpr (UpperBits(kFormat) > 0) AddUpperBits(p + kNibbleBytes);
      }
    }

    BATON_INLINE void AddUpperBits(const uint8_t* p) {
      constexpr int kBits = UpperBits(kFormat);
      const I mask = _mm512_set1_epi8(((1 << kBits) - 1) << 4);
      BATON_UNROLL for (int i = 0; i < 8; ++i) {
        const I upper = _mm512_loadu_si512(p + i * kBits / 8 * 64);
        // Shifts by 16 bits move bits between bytes too; the mask leaves each byte its own.
        const int shift = 4 - i * kBits % 8;
        const I moved = shift >= 0 ? _mm512_slli_epi16(upper, static_cast<unsigned>(shift))
                                   : _mm512_srli_epi16(upper, static_cast<unsigned>(-shift));
        // w | (moved & mask).
        w[i] = _mm512_ternarylogic_epi32(w[i], moved, mask, 0xf8);
      }
    }

    // factor 0 * (dot of the first 16) + factor 1 * (dot of the last 16); -8 * sum is there for each half.
    template <int kRows>
    BATON_INLINE void DotQ6K(const QuantGroup& acts, int first, I* dot) const {
      const I factor0 = _mm512_cvtepi8_epi32(LoadBytes(factors));
      const I factor1 = _mm512_cvtepi8_epi32(LoadBytes(factors + kLanes));
      BATON_UNROLL for (int j = 0; j < kRows; ++j) {
        const int16_t* const sums = acts.neg8_halves[first + j];
        I part[2] = {_mm512_set1_epi32(4 * sums[0]), _mm512_set1_epi32(4 * sums[1])};
        BATON_UNROLL for (int i = 0; i < 8; ++i) {
          int32_t word;
          __builtin_memcpy(&word, &acts.q[first + j][4 * i], sizeof(word));
          part[i / 4] = _mm512_dpbusd_epi32(part[i / 4], w[i], _mm512_set1_epi32(word));
        }
        dot[j] = _mm512_add_epi32(_mm512_mullo_epi32(part[0], factor0), _mm512_mullo_epi32(part[1], factor1));
      }
    }

    template <int kRows>
    BATON_INLINE void Dot(const QuantGroup& acts, int first, I* dot) const {
      if constexpr (kFormat == WeightFormat::kQ6_K) return DotQ6K<kRows>(acts, first, dot);
      BATON_UNROLL for (int j = 0; j < kRows; ++j) {
        if constexpr (HasMinima(kFormat)) {
          dot[j] = _mm512_setzero_si512();
        } else {
          dot[j] = _mm512_set1_epi32(acts.neg8_sum[first + j]);
          // 8 is the offset of kQ4_0.
          if constexpr (kFormat == WeightFormat::kQ5_0) dot[j] = _mm512_slli_epi32(dot[j], 1);
          if constexpr (kFormat == WeightFormat::kQ8_0) dot[j] = _mm512_slli_epi32(dot[j], 4);
        }
      }
      BATON_UNROLL for (int i = 0; i < 8; ++i) {
        BATON_UNROLL for (int j = 0; j < kRows; ++j) {
          int32_t word;
          __builtin_memcpy(&word, &acts.q[first + j][4 * i], sizeof(word));
          dot[j] = _mm512_dpbusd_epi32(dot[j], w[i], _mm512_set1_epi32(word));
        }
      }
    }
  };
};

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_SIMD_AVX512_H_
