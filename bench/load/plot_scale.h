// The numbers behind a plot: axes with round ticks, and cumulative curves.
#ifndef BATON_BENCH_LOAD_PLOT_SCALE_H_
#define BATON_BENCH_LOAD_PLOT_SCALE_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace baton::bench {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

// Has ticks at 0, `step`, ..., `max`. The step is 1, 2 or 5 times a power of ten.
struct PlotAxis {
  double max = 1;
  double step = 1;
};

// The least step that is not below `value`, which is above 0.
double RoundUpToStep(double value);
// The shortest axis with the least step that covers `reach` in at most `most_intervals` steps. From 0 to 1 when `reach`
// is not above 0.
PlotAxis RoundAxis(double reach, int most_intervals);
std::vector<double> Ticks(const PlotAxis& axis);
// Has as many decimals as the step needs, and commas between thousands.
std::string TickLabel(double tick, double step);
// Has about three digits: "0.83", "15.9", "1,471".
std::string ValueLabel(double value);

// How far an axis has to reach to show `sorted`, which is ascending and not empty: to the largest value, or to
// the 99.5th percentile when the largest lies far beyond it. An `objective` (0: none) that lies a little further is
// included.
double ReachOf(absl::Span<const double> sorted, double objective);

// The cumulative distribution of `sorted`, ascending and not empty, as a line from (0, 0) to x_max. Between two values
// the share grows linearly, so that the line goes through exactly what Percentile says: it leaves 0 at the smallest
// value and has reached 1 at the largest. Values beyond x_max are cut off. Points that the eye cannot tell apart are
// left out.
std::vector<PlotPoint> CumulativeCurve(absl::Span<const double> sorted, double x_max);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_PLOT_SCALE_H_
