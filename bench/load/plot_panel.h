// One panel of a plot: a frame with axes, and what is drawn into it.
#ifndef BATON_BENCH_LOAD_PLOT_PANEL_H_
#define BATON_BENCH_LOAD_PLOT_PANEL_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "bench/load/plot_scale.h"
#include "bench/load/svg_canvas.h"

namespace baton::bench {

// Where the panel lies on the canvas: axes and titles included.
struct PlotFrame {
  PlotPoint corner;
  double width = 0;
  double height = 0;
};

struct PanelTexts {
  std::string title;
  // Smaller, at the other end of the title's line.
  std::string note;
  PlotAxis x;
  PlotAxis y;
  // With their units.
  std::string x_label;
  std::string y_label;
};

// Points are values on the axes. What is drawn later lies above.
class PlotPanel {
 public:
  // Draws axes and titles. `canvas` outlives the panel.
  PlotPanel(const PlotFrame& frame, const PanelTexts& texts, SvgCanvas& canvas);

  void Curve(absl::Span<const PlotPoint> points);
  // The area between the points and the axis.
  void Fill(absl::Span<const PlotPoint> points);
  // A point of a rising curve, with a label beside it where the curve does not go.
  void MarkPoint(PlotPoint point, const std::string& label);
  // A vertical line at `x`, where a rising curve is at `share`; at the right edge when it lies beyond the axis.
  void MarkObjective(double x, double share, const std::vector<std::string>& label);
  // A horizontal line at `y` from 0 to `x_end`.
  void MarkLevel(double y, double x_end, const std::string& label);

 private:
  PlotPoint At(PlotPoint value) const;
  std::vector<PlotPoint> AllAt(absl::Span<const PlotPoint> values) const;
  double width() const { return right_ - left_; }
  void DrawAxes(const PlotFrame& frame, const PanelTexts& texts);

  const double left_;
  const double right_;
  const double top_;
  const double bottom_;
  const PlotAxis x_;
  const PlotAxis y_;
  SvgCanvas& canvas_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_PLOT_PANEL_H_
