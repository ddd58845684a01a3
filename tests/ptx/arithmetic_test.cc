// Arithmetic of integers, bits and floats against C++.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "tests/ptx/test_device.h"

namespace baton::ptx {
namespace {

class ArithmeticTest : public DeviceTest {
 protected:
  using Reference = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

  // Edges with each other, and random numbers of random length.
  static std::vector<std::array<uint64_t, 3>> Inputs() {
    std::mt19937_64 random(7);
    const uint64_t edges[] = {
        0, 1, 2, 31, 32, 33, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff, ~uint64_t{0}, uint64_t{1} << 63};
    std::vector<std::array<uint64_t, 3>> inputs;
    for (const uint64_t a : edges) {
      for (const uint64_t b : edges) inputs.push_back({a, b, edges[random() % std::size(edges)]});
    }
    for (int i = 0; i < 1000; ++i)
      inputs.push_back({random() >> random() % 64, random() >> random() % 64, random() >> random() % 64});
    return inputs;
  }

  void Check(const std::string& body, const std::string& result, const Reference& reference) {
    const auto inputs = Inputs();
    const auto results = Lanes(body, result, inputs);
    ASSERT_EQ(results.size(), inputs.size()) << body;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& [a, b, c] = inputs[i];
      ASSERT_EQ(results[i], reference(a, b, c)) << body << " of " << a << ", " << b << ", " << c;
    }
  }
};

uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
int32_t Signed(uint64_t value) { return static_cast<int32_t>(value); }
float Single(uint64_t value) { return std::bit_cast<float>(Low(value)); }
uint64_t Bits(float value) { return std::isnan(value) ? 0x7fffffff : std::bit_cast<uint32_t>(value); }

TEST_F(ArithmeticTest, Integers) {
  Check("add.s32 %o32, %a32, %b32;", "%o32", [](auto a, auto b, auto) { return Low(a + b); });
  Check("sub.u64 %o, %a, %b;", "%o", [](auto a, auto b, auto) { return a - b; });
  Check("mul.lo.s32 %o32, %a32, %b32;", "%o32", [](auto a, auto b, auto) { return Low(a * b); });
  Check("mul.hi.u32 %o32, %a32, %b32;", "%o32", [](auto a, auto b, auto) { return uint64_t{Low(a)} * Low(b) >> 32; });
  Check("mul.hi.s32 %o32, %a32, %b32;", "%o32",
        [](auto a, auto b, auto) { return Low(static_cast<uint64_t>(int64_t{Signed(a)} * Signed(b) >> 32)); });
  Check("mul.wide.s32 %o, %a32, %b32;", "%o",
        [](auto a, auto b, auto) { return static_cast<uint64_t>(int64_t{Signed(a)} * Signed(b)); });
  Check("mul.wide.u16 %o32, %a16, %b16;", "%o32", [](auto a, auto b, auto) { return (a & 0xffff) * (b & 0xffff); });
  Check("mul.hi.u64 %o, %a, %b;", "%o",
        [](auto a, auto b, auto) { return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64); });
  Check("mad.lo.s32 %o32, %a32, %b32, %c32;", "%o32", [](auto a, auto b, auto c) { return Low(a * b + c); });
  Check("mad.wide.u32 %o, %a32, %b32, %c;", "%o", [](auto a, auto b, auto c) { return uint64_t{Low(a)} * Low(b) + c; });
  Check("min.s32 %o32, %a32, %b32;", "%o32",
        [](auto a, auto b, auto) { return Low(uint64_t(std::min(Signed(a), Signed(b)))); });
  Check("max.u32 %o32, %a32, %b32;", "%o32", [](auto a, auto b, auto) { return std::max(Low(a), Low(b)); });
  Check("abs.s32 %o32, %a32;", "%o32", [](auto a, auto, auto) { return Signed(a) < 0 ? 0 - Low(a) : Low(a); });
  Check("neg.s16 %o16, %a16;", "%o16", [](auto a, auto, auto) { return (0 - a) & 0xffff; });
  Check("or.b32 %r3, %b32, 1; div.u32 %o32, %a32, %r3;", "%o32",
        [](auto a, auto b, auto) { return Low(a) / (Low(b) | 1); });
  Check("or.b32 %r3, %b32, 1; rem.s32 %o32, %a32, %r3;", "%o32",
        [](auto a, auto b, auto) { return Low(static_cast<uint64_t>(int64_t{Signed(a)} % (Signed(b) | 1))); });
  Check("add.sat.s32 %o32, %a32, %b32;", "%o32", [](auto a, auto b, auto) {
    const int64_t sum = int64_t{Signed(a)} + Signed(b);
    return Low(uint64_t(std::clamp<int64_t>(sum, std::numeric_limits<int>::min(), std::numeric_limits<int>::max())));
  });
  // A sum of 64 bits from two of 32.
  Check(
      "shr.u64 %rd3, %a, 32; shr.u64 %rd4, %b, 32; cvt.u32.u64 %r3, %rd3; cvt.u32.u64 %r4, %rd4;"
      "add.cc.u32 %r5, %a32, %b32; addc.u32 %r6, %r3, %r4; mov.b64 %o, {%r5, %r6};",
      "%o", [](auto a, auto b, auto) { return a + b; });
  Check("dp4a.s32.u32 %o32, %a32, %b32, %c32;", "%o32", [](auto a, auto b, auto c) {
    int64_t sum = Signed(c);
    for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(a >> 8 * i) * static_cast<uint8_t>(b >> 8 * i);
    return Low(static_cast<uint64_t>(sum));
  });
}

TEST_F(ArithmeticTest, Bits) {
  Check("lop3.b32 %o32, %a32, %b32, %c32, 0xE8;", "%o32",
        [](auto a, auto b, auto c) { return Low((a & b) | (a & c) | (b & c)); });
  Check("lop3.b32 %o32, %a32, %b32, %c32, 0x1A;", "%o32",
        [](auto a, auto b, auto c) { return Low((a & ~b & ~c) | (~a & c)); });
  Check("shl.b32 %o32, %a32, %b32;", "%o32", [](auto a, auto b, auto) { return Low(b) > 31 ? 0 : Low(a << Low(b)); });
  Check("shr.s32 %o32, %a32, %b32;", "%o32",
        [](auto a, auto b, auto) { return Low(uint64_t(Signed(a) >> std::min(Low(b), 31U))); });
  Check("shr.u64 %o, %a, %b32;", "%o", [](auto a, auto b, auto) { return Low(b) > 63 ? 0 : a >> Low(b); });
  Check("shf.l.wrap.b32 %o32, %a32, %b32, %c32;", "%o32",
        [](auto a, auto b, auto c) { return (uint64_t{Low(b)} << 32 | Low(a)) << (c & 31) >> 32; });
  Check("shf.r.clamp.b32 %o32, %a32, %b32, %c32;", "%o32",
        [](auto a, auto b, auto c) { return Low((uint64_t{Low(b)} << 32 | Low(a)) >> std::min(Low(c), 32U)); });
  Check("bfe.u32 %o32, %a32, %b32, %c32;", "%o32", [](auto a, auto b, auto c) {
    uint32_t result = 0;
    for (unsigned i = 0; i < (c & 255) && (b & 255) + i < 32; ++i) result |= (Low(a) >> ((b & 255) + i) & 1) << i;
    return result;
  });
  Check("bfe.s64 %o, %a, %b32, %c32;", "%o", [](auto a, auto b, auto c) {
    const uint64_t at = b & 255;
    const uint64_t length = c & 255;
    const uint64_t sign = length == 0 ? 0 : a >> std::min<uint64_t>(at + length - 1, 63) & 1;
    uint64_t result = 0;
    for (unsigned i = 0; i < 64; ++i) result |= (i < length && at + i < 64 ? a >> (at + i) & 1 : sign) << i;
    return result;
  });
  Check("bfi.b32 %o32, %a32, %b32, 5, 9;", "%o32",
        [](auto a, auto b, auto) { return (Low(b) & ~(0x1ffU << 5)) | (Low(a) & 0x1ff) << 5; });
  Check("bfi.b64 %o, %a, %b, %c32, 64;", "%o", [](auto a, auto b, auto c) {
    const uint64_t at = c & 255;
    return at > 63 ? b : (a << at) | (b & ((uint64_t{1} << at) - 1));
  });
  Check("clz.b32 %o32, %a32;", "%o32", [](auto a, auto, auto) { return std::countl_zero(Low(a)); });
  Check("popc.b64 %o32, %a;", "%o32", [](auto a, auto, auto) { return std::popcount(a); });
  Check("brev.b32 %o32, %a32;", "%o32", [](auto a, auto, auto) {
    uint32_t result = 0;
    for (int i = 0; i < 32; ++i) result |= (Low(a) >> i & 1) << (31 - i);
    return result;
  });
  Check("bfind.u32 %o32, %a32;", "%o32",
        [](auto a, auto, auto) { return Low(uint64_t(31 - std::countl_zero(Low(a)))); });
  Check("bfind.shiftamt.s32 %o32, %a32;", "%o32", [](auto a, auto, auto) {
    const uint32_t value = Signed(a) < 0 ? ~Low(a) : Low(a);
    return value == 0 ? ~0U : static_cast<uint32_t>(std::countl_zero(value));
  });
  Check("prmt.b32 %o32, %a32, %b32, %c32;", "%o32", [](auto a, auto b, auto c) {
    const uint64_t bytes = uint64_t{Low(b)} << 32 | Low(a);
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const auto select = static_cast<uint32_t>(c >> 4 * i & 15);
      uint32_t byte = bytes >> 8 * (select & 7) & 255;
      if ((select & 8) != 0) byte = byte >> 7 != 0 ? 255 : 0;
      result |= byte << 8 * i;
    }
    return result;
  });
  Check("mov.b32 {%o16, %b16}, %a32; mov.b32 %o32, {%b16, %o16};", "%o32",
        [](auto a, auto, auto) { return std::rotl(Low(a), 16); });
}

TEST_F(ArithmeticTest, FloatsRoundAsTheirModifiersSay) {
  std::mt19937_64 random(3);
  std::vector<std::array<uint64_t, 3>> inputs;
  const float edges[] = {0.0F, -0.0F, 1.0F, 1e-40F, -1e-45F, 3e38F, INFINITY, -INFINITY, NAN, 0.1F, 16777216.0F};
  for (const float a : edges) {
    for (const float b : edges)
      inputs.push_back({Bits(a), std::bit_cast<uint32_t>(b), Bits(edges[random() % std::size(edges)])});
  }
  for (int i = 0; i < 2000; ++i) inputs.push_back({Low(random()), Low(random()), Low(random())});
  auto check = [&](const std::string& body, const std::function<float(float, float, float)>& reference) {
    const auto results = Lanes(body, "%fo", inputs);
    ASSERT_EQ(results.size(), inputs.size()) << body;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& [a, b, c] = inputs[i];
      // A move keeps a NaN's payload; the reference does not.
      ASSERT_EQ(Bits(Single(results[i])), Bits(reference(Single(a), Single(b), Single(c))))
          << body << " " << Single(a) << " " << Single(b);
    }
  };
  auto flush = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; };
  check("add.f32 %fo, %fa, %fb;", [](auto a, auto b, auto) { return a + b; });
  check("mul.rn.ftz.f32 %fo, %fa, %fb;", [&](auto a, auto b, auto) { return flush(flush(a) * flush(b)); });
  check("fma.rn.f32 %fo, %fa, %fb, %fc;", [](auto a, auto b, auto c) { return std::fma(a, b, c); });
  check("fma.rz.f32 %fo, %fa, %fb, %fc;", [](float a, float b, float c) {
    std::fesetround(FE_TOWARDZERO);
    volatile float result = std::fma(a, b, c);
    std::fesetround(FE_TONEAREST);
    return static_cast<float>(result);
  });
  check("div.rn.f32 %fo, %fa, %fb;", [](auto a, auto b, auto) { return a / b; });
  check("sqrt.rn.f32 %fo, %fa;", [](auto a, auto, auto) { return std::sqrt(a); });
  check("add.sat.f32 %fo, %fa, %fb;", [](auto a, auto b, auto) {
    const float sum = a + b;
    return std::isnan(sum) ? 0.0F : std::min(std::max(sum, 0.0F), 1.0F);
  });
  check("max.f32 %fo, %fa, %fb;", [](auto a, auto b, auto) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a < b ? b : a;
  });
  check("min.NaN.f32 %fo, %fa, %fb;", [](auto a, auto b, auto) {
    if (std::isnan(a) || std::isnan(b)) return NAN;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  });
  check("ex2.approx.ftz.f32 %fo, %fa;",
        [&](auto a, auto, auto) { return flush(static_cast<float>(std::exp2(double{flush(a)}))); });
  check("rsqrt.approx.f32 %fo, %fa;", [](auto a, auto, auto) { return static_cast<float>(1 / std::sqrt(double{a})); });
  check("setp.ltu.f32 %p1, %fa, %fb; selp.f32 %fo, %fa, %fc, %p1;",
        [](auto a, auto b, auto c) { return std::isnan(a) || std::isnan(b) || a < b ? a : c; });
  check("setp.gt.and.f32 %p1|%p2, %fa, %fb, %p0; @!%p2 mov.f32 %fo, %fc; @%p2 mov.f32 %fo, %fb;",
        [](auto, auto, auto c) { return c; });
}

TEST_F(ArithmeticTest, SetGivesOneOrAllOnes) {
  Check("set.lt.u32.s32 %o32, %a32, %b32;", "%o32",
        [](auto a, auto b, auto) { return Signed(a) < Signed(b) ? ~0U : 0; });
  Check("set.gt.f32.u32 %fo, %a32, %b32;", "%fo",
        [](auto a, auto b, auto) { return Low(a) > Low(b) ? 0x3f800000 : 0; });
  // Halves that are not NaN, compared each by itself.
  Check("and.b32 %r3, %a32, 0x7bff7bff; and.b32 %r4, %b32, 0x7bff7bff; set.ge.f16x2.f16x2 %o32, %r3, %r4;", "%o32",
        [](auto a, auto b, auto) {
          const uint32_t high = (a >> 16 & 0x7bff) >= (b >> 16 & 0x7bff) ? 0x3c000000 : 0;
          return high | ((a & 0x7bff) >= (b & 0x7bff) ? 0x3c00 : 0);
        });
}

TEST_F(ArithmeticTest, DoublesAreTheHosts) {
  Check("fma.rn.f64 %o, %a, %b, %c;", "%o", [](auto a, auto b, auto c) {
    return std::bit_cast<uint64_t>(
        std::fma(std::bit_cast<double>(a), std::bit_cast<double>(b), std::bit_cast<double>(c)));
  });
  Check("cvt.rn.f32.f64 %fo, %a;", "%fo",
        [](auto a, auto, auto) { return Bits(static_cast<float>(std::bit_cast<double>(a))); });
}

}  // namespace
}  // namespace baton::ptx
