#include "bench/load/plot_scale.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "bench/load/summary.h"
#include "common/check.h"

namespace baton::bench {
namespace {

// A largest value this many times the 99.5th percentile would squeeze all others.
constexpr double kFarBeyond = 1.5;
// An objective this many times the values' own reach still leaves them two thirds of the axis.
constexpr double kNearby = 1.5;
// A curve has at most about this many points in either direction.
constexpr double kResolution = 400;
// Floating point may put an end of an axis a little beyond a tick.
constexpr double kTolerance = 1e-9;

// "1471" as "1,471".
std::string WithCommas(const std::string& digits) {
  const size_t whole = std::min(digits.find('.'), digits.size());
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace

double RoundUpToStep(double value) {
  BATON_CHECK(value > 0) << value;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - kTolerance)) return factor * power;
  }
  return 10 * power;
}

PlotAxis RoundAxis(double reach, int most_intervals) {
  if (reach <= 0) return {.max = 1, .step = RoundUpToStep(1.0 / most_intervals)};
  const double step = RoundUpToStep(reach / most_intervals);
  return {.max = step * std::ceil(reach / step * (1 - kTolerance)), .step = step};
}

std::vector<double> Ticks(const PlotAxis& axis) {
  std::vector<double> ticks;
  for (int i = 0; i * axis.step <= axis.max * (1 + kTolerance); ++i) ticks.push_back(i * axis.step);
  return ticks;
}

std::string TickLabel(double tick, double step) {
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + kTolerance)));
  return WithCommas(absl::StrFormat("%.*f", decimals, tick));
}

std::string ValueLabel(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return WithCommas(absl::StrFormat("%.*f", decimals, value));
}

double ReachOf(absl::Span<const double> sorted, double objective) {
  const double most = Percentile(sorted, 99.5);
  const double reach = sorted.back() <= kFarBeyond * most ? sorted.back() : most;
  return objective > reach && objective <= kNearby * reach ? objective : reach;
}

std::vector<PlotPoint> CumulativeCurve(absl::Span<const double> sorted, double x_max) {
  BATON_CHECK(!sorted.empty());
  std::vector<PlotPoint> curve = {{0, 0}};
  const auto value = [&](size_t i) {
    const double share = sorted.size() == 1 ? 0 : static_cast<double>(i) / static_cast<double>(sorted.size() - 1);
    return PlotPoint{sorted[i], share};
  };
  for (size_t i = 0; i < sorted.size() && sorted[i] <= x_max; ++i) {
    const PlotPoint point = value(i);
    const bool is_end = i == 0 || i + 1 == sorted.size();
    const bool is_apart =
        point.x - curve.back().x >= x_max / kResolution || point.y - curve.back().y >= 1 / kResolution;
    if (is_end || is_apart) curve.push_back(point);
  }
  if (sorted.back() <= x_max) {
    curve.push_back({sorted.back(), 1});
    curve.push_back({x_max, 1});
    return curve;
  }
  // The line leaves the picture between two values.
  const auto beyond = static_cast<size_t>(std::upper_bound(sorted.begin(), sorted.end(), x_max) - sorted.begin());
  if (beyond == 0) return {{0, 0}, {x_max, 0}};
  const PlotPoint last = value(beyond - 1);
  const PlotPoint next = value(beyond);
  curve.push_back({x_max, last.y + (next.y - last.y) * (x_max - last.x) / (next.x - last.x)});
  return curve;
}

}  // namespace baton::bench
