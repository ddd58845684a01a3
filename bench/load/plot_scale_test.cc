#include "bench/load/plot_scale.h"

#include <cmath>
#include <numeric>

#include "bench/load/summary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

// What the curve says at `x`.
double ShareAt(const std::vector<PlotPoint>& curve, double x) {
  for (size_t i = 1; i < curve.size(); ++i) {
    const PlotPoint& left = curve[i - 1];
    const PlotPoint& right = curve[i];
    if (x > right.x) continue;
    if (right.x == left.x) return right.y;
    return left.y + (right.y - left.y) * (x - left.x) / (right.x - left.x);
  }
  return curve.back().y;
}

bool IsOneTwoOrFive(double step) {
  const double factor = step / std::pow(10, std::floor(std::log10(step) + 1e-9));
  return std::abs(factor - 1) < 1e-6 || std::abs(factor - 2) < 1e-6 || std::abs(factor - 5) < 1e-6;
}

TEST(PlotAxis, HasTicksOfOneTwoOrFiveTimesAPowerOfTenAndCoversItsReach) {
  for (double reach = 1e-4; reach < 1e7; reach *= 1.37) {
    const PlotAxis axis = RoundAxis(reach, 6);
    EXPECT_TRUE(IsOneTwoOrFive(axis.step)) << axis.step;
    EXPECT_GE(axis.max, reach * (1 - 1e-6));
    EXPECT_LT(axis.max - axis.step, reach) << "one step less would do";
    EXPECT_LE(Ticks(axis).size(), 7u) << reach;
    EXPECT_GE(Ticks(axis).size(), 3u) << reach;
    EXPECT_NEAR(Ticks(axis).back(), axis.max, axis.step * 1e-6);
  }
}

TEST(PlotAxis, OfExactSizesIsNotExtended) {
  EXPECT_THAT(Ticks(RoundAxis(60, 6)), ElementsAre(0, 10, 20, 30, 40, 50, 60));
  EXPECT_THAT(Ticks(RoundAxis(0.3, 6)), Pointwise(DoubleNear(1e-12), {0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3}));
  EXPECT_THAT(Ticks(RoundAxis(1, 5)), Pointwise(DoubleNear(1e-12), {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}));
  EXPECT_EQ(RoundAxis(0, 5).max, 1);
}

TEST(PlotLabels, HaveTheDecimalsOfTheStepAndCommas) {
  EXPECT_EQ(TickLabel(0, 500), "0");
  EXPECT_EQ(TickLabel(12500, 500), "12,500");
  EXPECT_EQ(TickLabel(0.4, 0.2), "0.4");
  EXPECT_EQ(TickLabel(1, 0.2), "1.0");
  EXPECT_EQ(TickLabel(0.15, 0.05), "0.15");
  EXPECT_EQ(TickLabel(2'000'000, 1'000'000), "2,000,000");
  EXPECT_EQ(ValueLabel(0.831), "0.83");
  EXPECT_EQ(ValueLabel(15.86), "15.9");
  EXPECT_EQ(ValueLabel(99.99), "100");
  EXPECT_EQ(ValueLabel(1471.4), "1,471");
}

TEST(ReachOf, IsTheLargestValueUnlessItLiesFarBeyondTheRest) {
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), 1);
  EXPECT_EQ(ReachOf(values, 0), 1000);
  values.back() = 50'000;
  EXPECT_DOUBLE_EQ(ReachOf(values, 0), Percentile(values, 99.5));
}

TEST(ReachOf, IncludesANearbyObjectiveAndNoOther) {
  EXPECT_EQ(ReachOf({50, 100}, 120), 120);
  EXPECT_EQ(ReachOf({50, 100}, 80), 100);
  EXPECT_EQ(ReachOf({50, 100}, 5000), 100);
}

TEST(CumulativeCurve, StartsAtZeroAndEndsAtOne) {
  for (const std::vector<double>& values : {std::vector<double>{7}, {7, 7, 7}, {3, 9}, {0, 0, 10}, {1, 2, 4, 8, 10}}) {
    const std::vector<PlotPoint> curve = CumulativeCurve(values, 10);
    EXPECT_EQ(curve.front().x, 0);
    EXPECT_EQ(curve.front().y, 0);
    EXPECT_EQ(curve.back().x, 10);
    EXPECT_EQ(curve.back().y, 1);
    for (size_t i = 1; i < curve.size(); ++i) {
      EXPECT_GE(curve[i].x, curve[i - 1].x);
      EXPECT_GE(curve[i].y, curve[i - 1].y);
    }
  }
}

TEST(CumulativeCurve, PassesThroughThePercentiles) {
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i) values.push_back(std::pow(i / 5000.0, 3) * 80);
  const std::vector<PlotPoint> curve = CumulativeCurve(values, 80);
  EXPECT_LT(curve.size(), 900u) << "points that nobody can tell apart";
  for (double percent : {10.0, 50.0, 90.0, 99.0}) {
    EXPECT_NEAR(ShareAt(curve, Percentile(values, percent)), percent / 100, 0.003) << percent;
  }
}

TEST(CumulativeCurve, CutsOffWhatLiesBeyondTheAxis) {
  const std::vector<PlotPoint> curve = CumulativeCurve({10, 20, 120}, 70);
  EXPECT_EQ(curve.back().x, 70);
  EXPECT_DOUBLE_EQ(curve.back().y, 0.75);
  EXPECT_EQ(CumulativeCurve({100, 200}, 50).back().y, 0);
}

}  // namespace
}  // namespace baton::bench
