#include "common/det_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/random.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(DetMath, ExpIsWithinTwoUlpOfTheTruthOverItsWholeRange) {
  double worst = 0;
  for (float x = kDetExpMin; x < kDetExpMax; x += 0.00371f) {
    const double truth = std::exp(static_cast<double>(x));
    const double ulp = std::ldexp(1.0, std::ilogb(truth) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(DetExp(x)) - truth) / ulp);
  }
  EXPECT_LT(worst, 2.0);
}

TEST(DetMath, ExpOutsideItsRange) {
  EXPECT_EQ(DetExp(0.0f), 1.0f);
  EXPECT_EQ(DetExp(-100.0f), 0.0f);
  EXPECT_EQ(DetExp(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(DetExp(std::numeric_limits<float>::quiet_NaN()), 0.0f);
  EXPECT_EQ(DetExp(1000.0f), DetExp(kDetExpMax));
}

TEST(DetMath, FourLanesGiveTheBitsOfTheScalar) {
  SeededRandom random(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto draw = [&] { return kDetExpMin + static_cast<float>(random.Below(1 << 24)) * 0x1p-24f * 175.0f; };
    const DetFloat4 x = {draw(), draw(), draw(), draw()};
    const DetFloat4 y = DetExp4(x);
    for (int lane = 0; lane < 4; ++lane) ASSERT_EQ(y[lane], DetExp(x[lane])) << x[lane];
  }
}

TEST(DetMath, ExpBitsNeverChange) {
  EXPECT_EQ(DetExp(1.0f), 0x1.5bf0a8p+1f);
  EXPECT_EQ(DetExp(-0.1f), 0x1.cf46dap-1f);
  EXPECT_EQ(DetExp(-30.0f), 0x1.a56e0cp-44f);
}

TEST(DetMath, LogIsWithinFourUlpOfTheTruth) {
  SeededRandom random(4);
  for (int i = 0; i < 100'000; ++i) {
    const double mantissa = 1.0 + static_cast<double>(random.Next64() >> 12) * 0x1p-52;
    const double x = std::ldexp(mantissa, static_cast<int>(random.Below(400)) - 200);
    const double truth = std::log(x);
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(truth), -1000) - 52);
    ASSERT_LE(std::abs(DetLog(x) - truth), 4 * ulp) << x;
  }
  EXPECT_EQ(DetLog(1.0), 0.0);
}

}  // namespace
}  // namespace baton
