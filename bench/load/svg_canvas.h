// A picture as SVG text, without scripts and fonts. Its colours follow the viewer's choice of a light or a dark theme;
// viewers that have no such choice show the light ones.
#ifndef BATON_BENCH_LOAD_SVG_CANVAS_H_
#define BATON_BENCH_LOAD_SVG_CANVAS_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "bench/load/plot_scale.h"

namespace baton::bench {

enum class Ink { kPaper, kText, kMuted, kGrid, kData, kObjective };
enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 12;
  Ink ink = Ink::kText;
  Anchor anchor = Anchor::kStart;
  bool is_bold = false;
  // Reads from bottom to top.
  bool is_vertical = false;
  // Keeps what was drawn before away from the letters.
  bool has_halo = false;
};

struct LineStyle {
  Ink ink = Ink::kGrid;
  double width = 1;
  bool is_dashed = false;
};

// Coordinates are pixels from the upper left corner.
class SvgCanvas {
 public:
  SvgCanvas(double width, double height);

  // `at` is on the baseline.
  void Text(PlotPoint at, std::string_view text, const TextStyle& style);
  void Line(absl::Span<const PlotPoint> points, const LineStyle& style);
  // A filled area, of a colour that lets lines below it shine through.
  void Area(absl::Span<const PlotPoint> points, Ink ink);
  void Dot(PlotPoint at, double radius, Ink ink);

  // The whole picture.
  std::string Finish() const { return body_ + "</svg>\n"; }

 private:
  std::string body_;
};

// About how many pixels wide the text is in the fonts that viewers have.
double TextWidth(std::string_view text, double size);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_SVG_CANVAS_H_
