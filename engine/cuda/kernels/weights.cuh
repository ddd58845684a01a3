// A lane's part of a row of weights: 8 elements of a block of 32, as they lie in memory and as bf16.
#ifndef BATON_ENGINE_CUDA_KERNELS_WEIGHTS_CUH_
#define BATON_ENGINE_CUDA_KERNELS_WEIGHTS_CUH_

#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

// 2^23: adding it to an integer below 2^23 puts the integer's bits into the mantissa.
constexpr uint32_t kIntegerBits = 0x4b000000u;
constexpr float kIntegerBase = 8388608.0f;

// Byte kByte of a word whose bytes are 128 more than what they stand for.
template <int kByte>
__device__ __forceinline__ float SignedByte(uint32_t word) {
  return __fsub_rn(__uint_as_float(kIntegerBits | ((word >> (8 * kByte)) & 0xffu)), kIntegerBase + 128.0f);
}

// A pair of f16 and a pair of int8, as they lie in memory.
struct RawScale {
  uint32_t pair;
  uint32_t factors;

  // Scale and minimum.
  __device__ __forceinline__ float2 Value() const {
    const uint32_t bytes = factors ^ 0x8080u;
    return make_float2(__fmul_rn(HalfToFloat(static_cast<uint16_t>(pair)), SignedByte<0>(bytes)),
                       __fmul_rn(HalfToFloat(static_cast<uint16_t>(pair >> 16)), SignedByte<1>(bytes)));
  }
};

struct ScaledBy {
  float2 scale;

  __device__ __forceinline__ float operator()(float q) const { return __fmaf_rn(scale.x, q, scale.y); }
};

// 8 bf16 elements, two to a word.
struct Fragment {
  uint32_t pair[4];
};

// The f32 of a group of FP8, as it lies in memory. A half whose bits are those of an element behind one more of
// exponent has 2^-8 of its value: the scale makes up for that, which is exact, because it is at most 7e35.
struct RawFp8Scale {
  uint32_t bits;

  __device__ __forceinline__ float2 Value() const {
    return make_float2(__fmul_rn(__uint_as_float(bits), 256.0f), 0.0f);
  }
};

// Fp8ScalesOfRow, which host code alone can call.
__device__ __forceinline__ int ScalesOfFp8Row(int k) { return (k + kFp8Group - 1) / kFp8Group; }

// Bytes 1 and 3 of a word of FP8 as halves of 2^-8 of their values.
__device__ __forceinline__ uint32_t HalvesOfFp8(uint32_t word) {
  return (word & 0x80008000u) | ((word & 0x7f007f00u) >> 1);
}

// kBits of an element, elements to a pair of factors, the scale and the raw form of 8 elements.
template <WeightFormat kFormat>
struct WeightTraits;

template <>
struct WeightTraits<WeightFormat::kBf16> {
  static constexpr int kBits = 16;
  static constexpr int kPerFactors = ElementsOfFactors(WeightFormat::kBf16);
  using Scale = RawScale;
  using Raw = uint4;

  static __device__ __forceinline__ Raw LoadFromGlobal(const void* p) { return LoadOnce16(p); }
  static __device__ __forceinline__ Fragment Convert(const Raw& raw, float2) { return {{raw.x, raw.y, raw.z, raw.w}}; }
};

template <>
struct WeightTraits<WeightFormat::kInt8> {
  static constexpr int kBits = 8;
  static constexpr int kPerFactors = ElementsOfFactors(WeightFormat::kInt8);
  using Scale = RawScale;
  using Raw = uint2;

  static __device__ __forceinline__ Raw LoadFromGlobal(const void* p) { return Load8(p); }
  static __device__ __forceinline__ Fragment Convert(const Raw& raw, float2 scale) {
    const ScaledBy of{scale};
    const uint32_t low = raw.x ^ 0x80808080u;
    const uint32_t high = raw.y ^ 0x80808080u;
    return {{PackBf16(of(SignedByte<0>(low)), of(SignedByte<1>(low))),
             PackBf16(of(SignedByte<2>(low)), of(SignedByte<3>(low))),
             PackBf16(of(SignedByte<0>(high)), of(SignedByte<1>(high))),
             PackBf16(of(SignedByte<2>(high)), of(SignedByte<3>(high)))}};
  }
};

template <>
struct WeightTraits<WeightFormat::kInt4> {
  static constexpr int kBits = 4;
  static constexpr int kPerFactors = ElementsOfFactors(WeightFormat::kInt4);
  using Scale = RawScale;
  using Raw = uint32_t;

  static __device__ __forceinline__ Raw LoadFromGlobal(const void* p) { return Load4(p); }
  static __device__ __forceinline__ Fragment Convert(const Raw& raw, float2 scale) {
    const ScaledBy of{scale};
    Fragment fragment;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = __fsub_rn(__uint_as_float(kIntegerBits | ((raw >> (8 * i)) & 0xfu)), kIntegerBase);
      const float high = __fsub_rn(__uint_as_float(kIntegerBits | ((raw >> (8 * i + 4)) & 0xfu)), kIntegerBase);
      fragment.pair[i] = PackBf16(of(low), of(high));
    }
    return fragment;
  }
};

template <>
struct WeightTraits<WeightFormat::kFp8> {
  static constexpr int kBits = 8;
  static constexpr int kPerFactors = ElementsOfFactors(WeightFormat::kFp8);
  using Scale = RawFp8Scale;
  using Raw = uint2;

  static __device__ __forceinline__ Raw LoadFromGlobal(const void* p) { return Load8(p); }
  static __device__ __forceinline__ Fragment Convert(const Raw& raw, float2 scale) {
    Fragment fragment;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t word = i == 0 ? raw.x : raw.y;
      const uint32_t even = HalvesOfFp8(word << 8);
      const uint32_t odd = HalvesOfFp8(word);
      fragment.pair[2 * i] = PackBf16(Scaled(even, scale.x), Scaled(odd, scale.x));
      fragment.pair[2 * i + 1] = PackBf16(Scaled(even >> 16, scale.x), Scaled(odd >> 16, scale.x));
    }
    return fragment;
  }

 private:
  static __device__ __forceinline__ float Scaled(uint32_t half, float scale) {
    return __fmul_rn(HalfToFloat(static_cast<uint16_t>(half)), scale);
  }
};

// Both mma of a block of 32: the first takes the words x and y of every operand, the second z and w.
__device__ __forceinline__ void MmaBlock(float (&d)[4], const Fragment& top, const Fragment& bottom, const uint4& b) {
  Mma(d, top.pair[0], bottom.pair[0], top.pair[1], bottom.pair[1], b.x, b.y);
  Mma(d, top.pair[2], bottom.pair[2], top.pair[3], bottom.pair[3], b.z, b.w);
}

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_WEIGHTS_CUH_
