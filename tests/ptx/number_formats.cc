#include "tests/ptx/number_formats.h"

#include <algorithm>

namespace baton::ptx {
namespace {

// Whether the magnitude grows by one unit, given what was cut off: `rest` of `unit`, both below 2^63.
bool RoundsUp(bool odd, uint64_t rest, uint64_t unit, bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearest:
      return rest * 2 > unit || (rest * 2 == unit && odd);
    case Rounding::kNearestAway:
      return rest * 2 >= unit;
    case Rounding::kZero:
      return false;
    case Rounding::kDown:
      return negative && rest != 0;
    case Rounding::kUp:
      return !negative && rest != 0;
  }
  return false;
}

}  // namespace

uint32_t RoundTo(double value, int exponent_bits, int mantissa_bits, Rounding rounding) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const uint32_t sign = uint32_t{negative} << (exponent_bits + mantissa_bits);
  const uint32_t infinity = ((1U << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) return (1U << (exponent_bits + mantissa_bits)) - 1;
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  // A subnormal double is far below what any of these formats tells from zero, so its missing bit does not matter.
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  const uint64_t significand = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int biased = exponent + bias;
  // Subnormal results keep fewer bits. More than 62 bits are never cut, because what is that small is below half a
  // unit.
  const int cut = std::min(52 - mantissa_bits + (biased < 1 ? 1 - biased : 0), 62);
  const uint64_t unit = uint64_t{1} << cut;
  const uint64_t kept = significand >> cut;
  const uint64_t rest = significand & (unit - 1);
  uint64_t result = kept + (RoundsUp((kept & 1) != 0, rest, unit, negative, rounding) ? 1 : 0);
  // The implicit bit carries into the exponent.
  if (biased >= 1) result += uint64_t(biased - 1) << mantissa_bits;
  if (result >= infinity) {
    const bool to_infinity = rounding == Rounding::kNearest || rounding == Rounding::kNearestAway ||
                             rounding == (negative ? Rounding::kDown : Rounding::kUp);
    return sign | (to_infinity ? infinity : infinity - 1);
  }
  return sign | static_cast<uint32_t>(result);
}

float ToFloat(F16 value) {
  const int exponent = (value.bits >> 10) & 31;
  const int mantissa = value.bits & 1023;
  const bool negative = (value.bits & 0x8000) != 0;
  float magnitude = 0;
  if (exponent == 31) {
    if (mantissa != 0) return std::bit_cast<float>(kNanF32);
    magnitude = std::bit_cast<float>(0x7f800000U);
  } else if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  } else {
    magnitude = std::bit_cast<float>(static_cast<uint32_t>((exponent + 112) << 23 | mantissa << 13));
  }
  return negative ? -magnitude : magnitude;
}

double FmaToOdd(double a, double b, double c) {
  const double product = a * b;
  const double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (c - back);
  if (error == 0) return sum;
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  if ((bits & 1) != 0) return sum;
  // One unit towards the true sum gives an odd last bit.
  const bool grows = (error > 0) == (sum > 0);
  return std::bit_cast<double>(grows ? bits + 1 : bits - 1);
}

}  // namespace baton::ptx
