// Half precision formats, rounding modes and what PTX does to NaN and subnormal numbers.
#ifndef BATON_TESTS_PTX_NUMBER_FORMATS_H_
#define BATON_TESTS_PTX_NUMBER_FORMATS_H_

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

namespace baton::ptx {

// kNearestAway is .rna, which only conversions to tf32 have.
enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp, kNearestAway };

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

// The NaN that f32 instructions give.
inline constexpr uint32_t kNanF32 = 0x7fffffff;

// The nearest number with `exponent_bits` and `mantissa_bits` in the direction of `rounding`, as its bits. A NaN gives
// all ones but for the sign.
uint32_t RoundTo(double value, int exponent_bits, int mantissa_bits, Rounding rounding);

inline float ToFloat(Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
float ToFloat(F16 value);

inline Bf16 NearestBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline Bf16 ToBf16(double value, Rounding rounding = Rounding::kNearest) {
  return {static_cast<uint16_t>(RoundTo(value, 8, 7, rounding))};
}
inline F16 ToF16(double value, Rounding rounding = Rounding::kNearest) {
  return {static_cast<uint16_t>(RoundTo(value, 5, 10, rounding))};
}

// .ftz: a subnormal number becomes a zero of its sign.
inline float Flush(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value; }

// Whether the sum of a * b and c, which double holds rounded to odd, so that a second rounding to at most 24 bits is
// right. The product of a and b must be exact in double.
double FmaToOdd(double a, double b, double c);

// Sets the rounding of the host's arithmetic while it lives.
class HostRounding {
 public:
  explicit HostRounding(Rounding rounding) {
    static constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    std::fesetround(kModes[static_cast<int>(rounding)]);
  }
  ~HostRounding() { std::fesetround(FE_TONEAREST); }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_NUMBER_FORMATS_H_
