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

// kBits of an element, elements to a pair of factors, the raw form of 8 elements.
template <WeightFormat kFormat>
struct WeightTraits;

template <>
struct WeightTraits<WeightFormat::kBf16> {
  static constexpr int kBits = 16;
  static constexpr int kPerFactors = ElementsOfFactors(WeightFormat::kBf16);
  using Raw = uint4;

  static __device__ __forceinline__ Raw LoadFromGlobal(const void* p) { return LoadOnce16(p); }
  static __device__ __forceinline__ Fragment Convert(const Raw& raw, float2) { return {{raw.x, raw.y, raw.z, raw.w}}; }
};

template <>
struct WeightTraits<WeightFormat::kInt8> {
  static constexpr int kBits = 8;
  static constexpr int kPerFactors = ElementsOfFactors(WeightFormat::kInt8);
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

// Both mma of a block of 32: the first takes the words x and y of every operand, the second z and w.
__device__ __forceinline__ void MmaBlock(float (&d)[4], const Fragment& top, const Fragment& bottom, const uint4& b) {
  Mma(d, top.pair[0], bottom.pair[0], top.pair[1], bottom.pair[1], b.x, b.y);
  Mma(d, top.pair[2], bottom.pair[2], top.pair[3], bottom.pair[3], b.z, b.w);
}

}  // namespace
}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_WEIGHTS_CUH_
