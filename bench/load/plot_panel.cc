#include "bench/load/plot_panel.h"

#include <algorithm>

namespace baton::bench {
namespace {

constexpr double kLeft = 64;
constexpr double kRight = 24;
constexpr double kTop = 50;
constexpr double kBottom = 52;
constexpr double kLabelSize = 12;
constexpr double kLineHeight = 15;
constexpr double kDotRadius = 4;
constexpr double kGap = 7;

}  // namespace

PlotPanel::PlotPanel(const PlotFrame& frame, const PanelTexts& texts, SvgCanvas& canvas)
    : left_(frame.corner.x + kLeft),
      right_(frame.corner.x + frame.width - kRight),
      top_(frame.corner.y + kTop),
      bottom_(frame.corner.y + frame.height - kBottom),
      x_(texts.x),
      y_(texts.y),
      canvas_(canvas) {
  canvas_.Text({left_, frame.corner.y + 24}, texts.title, {.size = 14, .is_bold = true});
  canvas_.Text({right_, frame.corner.y + 24}, texts.note, {.ink = Ink::kMuted, .anchor = Anchor::kEnd});
  DrawAxes(frame, texts);
}

PlotPoint PlotPanel::At(PlotPoint value) const {
  return {left_ + value.x / x_.max * width(), bottom_ - value.y / y_.max * (bottom_ - top_)};
}

std::vector<PlotPoint> PlotPanel::AllAt(absl::Span<const PlotPoint> values) const {
  std::vector<PlotPoint> points;
  points.reserve(values.size());
  for (const PlotPoint& value : values) points.push_back(At(value));
  return points;
}

void PlotPanel::DrawAxes(const PlotFrame& frame, const PanelTexts& texts) {
  for (double tick : Ticks(y_)) {
    const double y = At({0, tick}).y;
    canvas_.Line({{left_, y}, {right_, y}}, {});
    canvas_.Text({left_ - kGap, y + 4}, TickLabel(tick, y_.step), {.ink = Ink::kMuted, .anchor = Anchor::kEnd});
  }
  for (double tick : Ticks(x_)) {
    const double x = At({tick, 0}).x;
    canvas_.Line({{x, top_}, {x, bottom_}}, {});
    canvas_.Text({x, bottom_ + 18}, TickLabel(tick, x_.step), {.ink = Ink::kMuted, .anchor = Anchor::kMiddle});
  }
  canvas_.Line({{left_, top_}, {left_, bottom_}, {right_, bottom_}}, {.ink = Ink::kMuted});
  canvas_.Text({(left_ + right_) / 2, bottom_ + 37}, texts.x_label, {.anchor = Anchor::kMiddle});
  canvas_.Text({frame.corner.x + 16, (top_ + bottom_) / 2}, texts.y_label,
               {.anchor = Anchor::kMiddle, .is_vertical = true});
}

void PlotPanel::Curve(absl::Span<const PlotPoint> points) {
  if (!points.empty()) canvas_.Line(AllAt(points), {.ink = Ink::kData, .width = 2.2});
}

void PlotPanel::Fill(absl::Span<const PlotPoint> points) {
  if (points.empty()) return;
  std::vector<PlotPoint> outline = AllAt(points);
  outline.push_back({outline.back().x, bottom_});
  outline.push_back({outline.front().x, bottom_});
  canvas_.Area(outline, Ink::kData);
}

void PlotPanel::MarkPoint(PlotPoint point, const std::string& label) {
  if (point.x > x_.max) return;
  const PlotPoint at = At(point);
  canvas_.Dot(at, kDotRadius, Ink::kData);
  // A rising curve leaves free what lies below and right of its point, and what lies above and left of it.
  const bool is_right = at.x + kGap + TextWidth(label, kLabelSize) < right_;
  const PlotPoint place = is_right ? PlotPoint{at.x + kGap, at.y + 13} : PlotPoint{at.x - kGap, at.y - 4};
  canvas_.Text(place, label, {.anchor = is_right ? Anchor::kStart : Anchor::kEnd, .has_halo = true});
}

void PlotPanel::MarkObjective(double x, double share, const std::vector<std::string>& label) {
  double widest = 0;
  for (const std::string& line : label) widest = std::max(widest, TextWidth(line, kLabelSize));
  const bool is_beyond = x > x_.max;
  const double at = is_beyond ? right_ : At({x, 0}).x;
  canvas_.Line({{at, top_}, {at, bottom_}}, {.ink = Ink::kObjective, .width = 1.6, .is_dashed = true});
  if (is_beyond) {
    // An arrow: the objective lies farther right.
    const double y = bottom_ - 2 * kLineHeight - 14;
    canvas_.Line({{at - 40, y}, {at, y}}, {.ink = Ink::kObjective, .width = 1.6});
    canvas_.Line({{at - 7, y - 4}, {at, y}, {at - 7, y + 4}}, {.ink = Ink::kObjective, .width = 1.6});
  }
  // The curve lies to the left of the line in the lower half when most values meet the objective, else to its right.
  const bool fits_right = at + kGap + widest < right_;
  const bool fits_left = at - kGap - widest > left_;
  const bool is_right = share >= 0.5 ? fits_right : !fits_left;
  double y = share >= 0.5 ? bottom_ - kLineHeight * static_cast<double>(label.size()) + 4 : top_ + kLineHeight;
  for (const std::string& line : label) {
    canvas_.Text({is_right ? at + kGap : at - kGap, y}, line,
                 {.ink = Ink::kObjective, .anchor = is_right ? Anchor::kStart : Anchor::kEnd, .has_halo = true});
    y += kLineHeight;
  }
}

void PlotPanel::MarkLevel(double y, double x_end, const std::string& label) {
  const PlotPoint end = At({x_end, y});
  canvas_.Line({{left_, end.y}, end}, {.ink = Ink::kText, .width = 1.2, .is_dashed = true});
  canvas_.Text({left_ + kGap, end.y - 5}, label, {.has_halo = true});
}

}  // namespace baton::bench
