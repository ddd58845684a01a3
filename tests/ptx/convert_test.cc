// Conversions, against tables of all halves and against C++.
#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "tests/ptx/number_formats.h"
#include "tests/ptx/test_device.h"

namespace baton::ptx {
namespace {

class ConvertTest : public DeviceTest {
 protected:
  static std::vector<std::array<uint64_t, 3>> AllHalves() {
    std::vector<std::array<uint64_t, 3>> inputs;
    for (uint64_t bits = 0; bits < 65536; ++bits) inputs.push_back({bits, 0, 0});
    return inputs;
  }
  // Random floats, and the neighbourhoods of all midpoints of a few halves.
  static std::vector<std::array<uint64_t, 3>> Floats(int mantissa_bits) {
    std::mt19937_64 random(11);
    std::vector<std::array<uint64_t, 3>> inputs;
    for (int i = 0; i < 20000; ++i) {
      uint64_t bits = random() & 0xffffffff;
      // Half of them in the range of the format, and many of those near a midpoint.
      if (i % 2 == 0) bits = (bits & 0x807fffff) | (127 - 20 + random() % 40) << 23;
      const uint64_t below = (uint64_t{1} << (23 - mantissa_bits)) - 1;
      if (i % 4 == 0) bits = (bits & ~below) | (below / 2 + random() % 3);
      inputs.push_back({bits, random() & 0xffffffff, 0});
    }
    return inputs;
  }
};

double HalfValue(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1U << exponent_bits) - 1));
  const double mantissa = bits & ((1U << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? INFINITY : NAN;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                         : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return magnitude;
}

// The nearest half by search: of two equally near ones the even one.
uint32_t Nearest(double value, int exponent_bits, int mantissa_bits) {
  const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint32_t infinity = ((1U << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) return 0x7fff;
  const double magnitude = std::abs(value);
  uint32_t low = 0;
  uint32_t high = infinity;
  while (low + 1 < high) {
    const uint32_t middle = (low + high) / 2;
    (HalfValue(middle, exponent_bits, mantissa_bits) <= magnitude ? low : high) = middle;
  }
  if (std::isinf(magnitude)) return sign | infinity;
  // What lies beyond the greatest finite number counts as one more step.
  const double below = HalfValue(low, exponent_bits, mantissa_bits);
  const double above =
      high == infinity ? std::ldexp(1.0, 1 << (exponent_bits - 1)) : HalfValue(high, exponent_bits, mantissa_bits);
  const double to_below = magnitude - below;
  const double to_above = above - magnitude;
  if (to_below != to_above) return sign | (to_below < to_above ? low : high);
  return sign | (low % 2 == 0 ? low : high);
}

TEST_F(ConvertTest, EveryF16AndBf16WidensToItsValue) {
  const auto inputs = AllHalves();
  const auto from_f16 = Lanes("cvt.f32.f16 %fo, %a16;", "%fo", inputs);
  const auto from_bf16 = Lanes("cvt.f32.bf16 %fo, %a16;", "%fo", inputs);
  ASSERT_EQ(from_f16.size(), 65536U);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double half = HalfValue(bits & 0x7fff, 5, 10) * (bits >> 15 != 0 ? -1 : 1);
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(from_f16[bits]));
    ASSERT_TRUE(std::isnan(half) ? std::isnan(value) : value == half && std::signbit(value) == std::signbit(half))
        << bits;
    if (!std::isnan(std::bit_cast<float>(bits << 16))) {
      ASSERT_EQ(from_bf16[bits], uint64_t{bits} << 16);
    }
  }
}

TEST_F(ConvertTest, F32RoundsToTheNearestHalf) {
  for (const auto& [name, exponent_bits, mantissa_bits] : {std::tuple{"f16", 5, 10}, std::tuple{"bf16", 8, 7}}) {
    const auto inputs = Floats(mantissa_bits);
    const auto single = Lanes(std::string("cvt.rn.") + name + ".f32 %o16, %fa;", "%o16", inputs);
    const auto pairs = Lanes(std::string("cvt.rn.") + name + "x2.f32 %o32, %fa, %fb;", "%o32", inputs);
    ASSERT_EQ(single.size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto a = std::bit_cast<float>(static_cast<uint32_t>(inputs[i][0]));
      const auto b = std::bit_cast<float>(static_cast<uint32_t>(inputs[i][1]));
      ASSERT_EQ(single[i], Nearest(a, exponent_bits, mantissa_bits)) << name << " of " << a;
      // The first source is the upper half.
      ASSERT_EQ(pairs[i],
                uint64_t{Nearest(a, exponent_bits, mantissa_bits)} << 16 | Nearest(b, exponent_bits, mantissa_bits));
    }
  }
}

TEST_F(ConvertTest, HalfArithmeticRoundsOnce) {
  std::mt19937_64 random(5);
  std::vector<std::array<uint64_t, 3>> inputs;
  for (int i = 0; i < 20000; ++i) inputs.push_back({random() & 0xffff, random() & 0xffff, random() & 0xffff});
  auto value = [](uint64_t bits) { return static_cast<long double>(ToFloat(F16{static_cast<uint16_t>(bits)})); };
  const auto sums = Lanes("add.f16 %o16, %a16, %b16;", "%o16", inputs);
  const auto fused = Lanes("fma.rn.f16 %o16, %a16, %b16, %c16;", "%o16", inputs);
  const auto pairs = Lanes("mul.bf16x2 %o32, %a32, %b32;", "%o32", inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [a, b, c] = inputs[i];
    ASSERT_EQ(sums[i], Nearest(static_cast<double>(value(a) + value(b)), 5, 10)) << i;
    // 64 bits of significand hold the exact sum of most; the rest is left to FmaToOdd.
    const long double exact = value(a) * value(b) + value(c);
    if (static_cast<long double>(static_cast<double>(exact)) == exact) {
      ASSERT_EQ(fused[i], Nearest(static_cast<double>(exact), 5, 10)) << i;
    }
    const double product = double{ToFloat(Bf16{static_cast<uint16_t>(a)})} * ToFloat(Bf16{static_cast<uint16_t>(b)});
    ASSERT_EQ(pairs[i] & 0xffff, Nearest(product, 8, 7)) << i;
  }
}

TEST_F(ConvertTest, IntegersSaturateAndNanIsZero) {
  const std::vector<float> values = {0.5F, 1.5F,  2.5F,  -0.5F, -1.5F,    300,      -300,
                                     3e9F, -3e9F, 1e20F, NAN,   INFINITY, -INFINITY};
  std::vector<std::array<uint64_t, 3>> inputs;
  for (const float value : values) inputs.push_back({std::bit_cast<uint32_t>(value), 0, 0});
  const auto nearest = Lanes("cvt.rni.s32.f32 %o32, %fa;", "%o32", inputs);
  const auto zero = Lanes("cvt.rzi.u32.f32 %o32, %fa;", "%o32", inputs);
  const auto byte = Lanes("cvt.rmi.s8.f32 %o32, %fa;", "%o32", inputs);
  auto clamped = [](double x, double low, double high) {
    return std::isnan(x) ? 0 : static_cast<int64_t>(std::min(std::max(x, low), high));
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    EXPECT_EQ(nearest[i], static_cast<uint32_t>(clamped(std::nearbyint(x), -2147483648.0, 2147483647.0))) << x;
    EXPECT_EQ(zero[i], static_cast<uint32_t>(clamped(std::trunc(x), 0, 4294967295.0))) << x;
    EXPECT_EQ(byte[i], static_cast<uint32_t>(clamped(std::floor(x), -128, 127))) << x;
  }
}

TEST_F(ConvertTest, IntegersWidenBySignAndBecomeTheNearestFloat) {
  std::mt19937_64 random(9);
  std::vector<std::array<uint64_t, 3>> inputs;
  for (int i = 0; i < 2000; ++i) inputs.push_back({random() >> random() % 64, 0, 0});
  const auto s8 = Lanes("cvt.s32.s8 %o32, %a16;", "%o32", inputs);
  const auto to_float = Lanes("cvt.rn.f32.s64 %fo, %a;", "%fo", inputs);
  const auto down = Lanes("cvt.rz.f32.u32 %fo, %a32;", "%fo", inputs);
  const auto saturated = Lanes("cvt.sat.u8.s32 %o32, %a32;", "%o32", inputs);
  const auto tf32 = Lanes("cvt.rna.tf32.f32 %o32, %fa;", "%o32", inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t a = inputs[i][0];
    ASSERT_EQ(s8[i], static_cast<uint32_t>(static_cast<int8_t>(a)));
    ASSERT_EQ(to_float[i], std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(a))));
    const auto cut = std::bit_cast<float>(static_cast<uint32_t>(down[i]));
    ASSERT_LE(double{cut}, static_cast<double>(static_cast<uint32_t>(a)));
    ASSERT_GE(double{std::nextafter(cut, INFINITY)}, static_cast<double>(static_cast<uint32_t>(a)));
    ASSERT_EQ(saturated[i], static_cast<uint64_t>(std::clamp(static_cast<int32_t>(a), 0, 255)));
    if ((a & 0x7f800000) != 0x7f800000) {
      ASSERT_EQ(tf32[i], ((static_cast<uint32_t>(a) + 0x1000) & 0xffffe000));
    }
  }
}

}  // namespace
}  // namespace baton::ptx
