// Scalar conversions of the 16-bit float types and of FP8 by their bits. Internal linkage: files of every instruction
// set use them.
#ifndef BATON_ENGINE_KERNELS_HALF_H_
#define BATON_ENGINE_KERNELS_HALF_H_

#include <cstdint>

namespace baton::engine::kernels {
namespace {

[[maybe_unused]] inline uint32_t FloatToBits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}

[[maybe_unused]] inline float BitsToFloat(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

[[maybe_unused]] inline uint16_t LoadU16(const uint8_t* p) {
  uint16_t x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}

[[maybe_unused]] inline uint32_t LoadU32(const uint8_t* p) {
  uint32_t x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}

// Exact for every value, without arithmetic: denormal halves must survive "denormals are zero".
[[maybe_unused]] inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return BitsToFloat(sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0));
  if (exponent == 0) {
    if (mantissa == 0) return BitsToFloat(sign);
    exponent = 1;
    while ((mantissa & 0x400u) == 0) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= 0x3ffu;
  }
  return BitsToFloat(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

[[maybe_unused]] inline float Bf16ToFloat(uint16_t x) { return BitsToFloat(static_cast<uint32_t>(x) << 16); }

// E4M3: 4 bits of exponent, 3 of mantissa, no infinities. A half with the same bits behind one more of exponent has
// 2^-8 of the value, denormals included, and every value is a normal float.
[[maybe_unused]] inline float Fp8ToFloat(uint8_t x) {
  if ((x & 0x7fu) == 0x7fu) return BitsToFloat((static_cast<uint32_t>(x) & 0x80u) << 24 | 0x7fc00000u);
  const uint32_t half = (static_cast<uint32_t>(x) & 0x80u) << 8 | (static_cast<uint32_t>(x) & 0x7fu) << 7;
  return HalfToFloat(static_cast<uint16_t>(half)) * 256.0f;
}

// To nearest even.
[[maybe_unused]] inline uint16_t FloatToBf16(float x) {
  const uint32_t bits = FloatToBits(x);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// To nearest even, beyond the range to infinity. Without arithmetic, as HalfToFloat.
[[maybe_unused]] inline uint16_t FloatToHalf(float x) {
  const uint32_t bits = FloatToBits(x);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {
    return static_cast<uint16_t>(sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13);
  }
  // Denormal: units of 2^-24; below half a unit nothing is left.
  const uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return static_cast<uint16_t>(sign);
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126 - exponent;
  const uint32_t units = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  const uint32_t middle = 1u << (shift - 1);
  return static_cast<uint16_t>(sign | (units + (rest > middle || (rest == middle && units % 2 == 1))));
}

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_HALF_H_
