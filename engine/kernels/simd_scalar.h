// 16 lanes as plain loops: the definition of every lane operation. Included once, by cpu_scalar.cc.
#ifndef BATON_ENGINE_KERNELS_SIMD_SCALAR_H_
#define BATON_ENGINE_KERNELS_SIMD_SCALAR_H_

#include <cstdint>

#include "engine/kernels/half.h"
#include "engine/kernels/kernel_table.h"
#include "engine/kernels/packed_layout.h"
#include "engine/kernels/unroll.h"

namespace baton::engine::kernels {
namespace {

struct Simd {
  struct F {
    float v[kLanes];
  };
  struct I {
    int32_t v[kLanes];
  };

  // Register blocking; never part of the numerics.
  static constexpr int kQuantRows = 4;
  static constexpr int kDotRows = 4;
  // Weights are unpacked in registers, once for all rows of a tile.
  static constexpr int kPanelRows = 0;
  static constexpr int kFloatRows = 4;
  static constexpr int kFloatCols = 1;
  // Queries of an attention tile, and the blocks or vectors beside them. With up to kFewQueries queries there are more
  // blocks or vectors.
  static constexpr int kQueryTile = 2;
  static constexpr int kFewQueries = 0;
  static constexpr int kBlockTile = 1;
  static constexpr int kBlockTileFew = 1;
  static constexpr int kValueVectors = 2;
  static constexpr int kValueVectorsFew = 2;
  static constexpr bool kHasBf16Dot = false;

  template <typename Op>
  static BATON_INLINE F Map(Op op) {
    F r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = op(i);
    return r;
  }
  template <typename Op>
  static BATON_INLINE I MapI(Op op) {
    I r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = op(i);
    return r;
  }

  static F Zero() { return Set1(0.0f); }
  static F Set1(float x) {
    return Map([&](int) { return x; });
  }
  static F Load(const float* p) {
    return Map([&](int i) { return p[i]; });
  }
  static void Store(float* p, const F& x) {
    for (int i = 0; i < kLanes; ++i) p[i] = x.v[i];
  }
  static F LoadF16(const uint8_t* p) {
    return Map([&](int i) { return HalfToFloat(LoadU16(p + 2 * i)); });
  }
  static F LoadBf16(const uint8_t* p) {
    return Map([&](int i) { return Bf16ToFloat(LoadU16(p + 2 * i)); });
  }

  static F Add(const F& a, const F& b) {
    return Map([&](int i) { return a.v[i] + b.v[i]; });
  }
  static F Sub(const F& a, const F& b) {
    return Map([&](int i) { return a.v[i] - b.v[i]; });
  }
  static F Mul(const F& a, const F& b) {
    return Map([&](int i) { return a.v[i] * b.v[i]; });
  }
  static F Div(const F& a, const F& b) {
    return Map([&](int i) { return a.v[i] / b.v[i]; });
  }
  static F Fma(const F& a, const F& b, const F& c) {
    return Map([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  // The second operand when either is not a number, as the instruction does.
  static F Max(const F& a, const F& b) {
    return Map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F Min(const F& a, const F& b) {
    return Map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F Abs(const F& a) {
    return Map([&](int i) { return BitsToFloat(FloatToBits(a.v[i]) & 0x7fffffffu); });
  }
  static F SwapPairs(const F& a) {
    return Map([&](int i) { return a.v[i ^ 1]; });
  }
  // Lanes below n keep x, the others become `rest`.
  static F Keep(const F& x, int n, float rest) {
    return Map([&](int i) { return i < n ? x.v[i] : rest; });
  }
  // a < b ? x : y.
  static F SelectLess(const F& a, const F& b, const F& x, const F& y) {
    return Map([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
  }
  static float ReduceSum(const F& x) {
    F t = x;
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) t.v[i] = t.v[i] + t.v[i + half];
    }
    return t.v[0];
  }
  static float ReduceMax(const F& x) {
    F t = x;
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) t.v[i] = t.v[i] > t.v[i + half] ? t.v[i] : t.v[i + half];
    }
    return t.v[0];
  }
  static float First(const F& x) { return x.v[0]; }

  // To nearest even; |x| < 2^22: adding 1.5 * 2^23 leaves the integer in the low bits of the mantissa.
  static I ToInt(const F& x) {
    return MapI([&](int i) {
      const float magic = 12582912.0f;
      return static_cast<int32_t>(FloatToBits(x.v[i] + magic)) - static_cast<int32_t>(FloatToBits(magic));
    });
  }
  static F ToFloat(const I& x) {
    return Map([&](int i) { return static_cast<float>(x.v[i]); });
  }
  // x * 2^n by the exponent's bits; both x and the result are normal.
  static F Scale2(const F& x, const I& n) {
    return Map([&](int i) { return BitsToFloat(FloatToBits(x.v[i]) + (static_cast<uint32_t>(n.v[i]) << 23)); });
  }
  static I Set1Word(const uint8_t* p) {
    const int32_t w = static_cast<int32_t>(LoadU32(p));
    return MapI([&](int) { return w; });
  }
  static I LoadWords(const uint8_t* p) {
    return MapI([&](int i) { return static_cast<int32_t>(LoadU32(p + 4 * i)); });
  }
  static I LowHalves(const I& x) {
    return MapI([&](int i) { return x.v[i] & 0xffff; });
  }
  static F AsFloat(const I& x) {
    return Map([&](int i) { return BitsToFloat(static_cast<uint32_t>(x.v[i])); });
  }
  static F HighHalvesAsFloat(const I& x) {
    return Map([&](int i) { return BitsToFloat(static_cast<uint32_t>(x.v[i]) & 0xffff0000u); });
  }
  static F LowHalvesAsFloat(const I& x) {
    return Map([&](int i) { return BitsToFloat(static_cast<uint32_t>(x.v[i]) << 16); });
  }
  // Rounded to bf16, as f32.
  static F RoundBf16(const F& x) {
    return Map([&](int i) { return Bf16ToFloat(FloatToBf16(x.v[i])); });
  }
  // The upper halves of x.
  static void StoreBf16(uint16_t* p, const F& x) {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<uint16_t>(FloatToBits(x.v[i]) >> 16);
  }
  static F LoadU8(const uint8_t* p) {
    return Map([&](int i) { return static_cast<float>(p[i]); });
  }
  static F LoadI8(const uint8_t* p) {
    return Map([&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
  }
  // Lanes from n on keep x, the others become `rest`.
  static F KeepFrom(const F& x, int n, float rest) {
    return Map([&](int i) { return i < n ? rest : x.v[i]; });
  }
  // Lanes of a, then of b; the sum of each.
  static void StoreInt8(int8_t* p, const I& a, const I& b, int32_t (&sums)[2]) {
    sums[0] = sums[1] = 0;
    for (int i = 0; i < kLanes; ++i) {
      p[i] = static_cast<int8_t>(a.v[i]);
      p[i + kLanes] = static_cast<int8_t>(b.v[i]);
      sums[0] += a.v[i];
      sums[1] += b.v[i];
    }
  }

  // One group of 16 weight rows, at hand for several activation rows.
  template <WeightFormat kFormat>
  struct Weights {
    const uint8_t* data;
    const uint8_t* factors;
    BATON_INLINE Weights(const uint8_t* p, const uint8_t* f) : data(p), factors(f) {}

    int Value(int k, int column) const {
      if (kFormat == WeightFormat::kQ8_0) return data[(k / 4) * 64 + column * 4 + k % 4] - 128;
      const int byte = data[(k % 16 / 4) * 64 + column * 4 + k % 4];
      const int value = k < 16 ? byte & 15 : byte >> 4;
      if (kFormat == WeightFormat::kQ4_0) return value - 8;
      constexpr int kBits = UpperBits(kFormat);
      if constexpr (kBits > 0) {
        constexpr int kPerByte = 8 / kBits;
        const int bits = data[kNibbleBytes + k / 4 / kPerByte * 64 + column * 4 + k % 4] >> (k / 4 % kPerByte * kBits);
        const int whole = value | (bits & ((1 << kBits) - 1)) << 4;
        if (kFormat == WeightFormat::kQ6_K)
          return (whole - 32) * static_cast<int8_t>(factors[k / 16 * kLanes + column]);
        return kFormat == WeightFormat::kQ5_0 ? whole - 16 : whole;
      }
      return value;
    }
    // dot[j] = integer dot of activation row first + j with each of the 16 weight rows.
    template <int kRows>
    BATON_INLINE void Dot(const QuantGroup& acts, int first, I* dot) const {
      for (int j = 0; j < kRows; ++j) dot[j] = MapI([](int) { return 0; });
      for (int k = 0; k < kGroup; ++k) {
        for (int i = 0; i < kLanes; ++i) {
          const int w = Value(k, i);
          for (int j = 0; j < kRows; ++j) dot[j].v[i] += w * acts.q[first + j][k];
        }
      }
    }
  };
};

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_SIMD_SCALAR_H_
