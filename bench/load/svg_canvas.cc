#include "bench/load/svg_canvas.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace baton::bench {
namespace {

struct InkColours {
  const char* light;
  const char* dark;
};

// In the order of Ink. Texts have a contrast of at least 4.5 to the paper in both themes; data and objective differ in
// lightness too, not in hue alone.
constexpr std::array<InkColours, 6> kInks = {{{"#ffffff", "#0d1117"},
                                              {"#1f2328", "#e6edf3"},
                                              {"#59636e", "#9198a1"},
                                              {"#d8dee4", "#30363d"},
                                              {"#0b5fc4", "#58a6ff"},
                                              {"#b03a06", "#ff9a62"}}};
constexpr double kLetterWidth = 0.56;
constexpr double kHaloWidth = 4;

int IndexOf(Ink ink) { return static_cast<int>(ink); }
const char* LightColour(Ink ink) { return kInks[static_cast<size_t>(ink)].light; }

// A class beats a colour that is an attribute, so viewers that understand the rule for dark themes replace the colours.
std::string DarkTheme() {
  std::string rules;
  for (size_t i = 0; i < kInks.size(); ++i) {
    absl::StrAppendFormat(&rules, ".f%d{fill:%s}.s%d{stroke:%s}", i, kInks[i].dark, i, kInks[i].dark);
  }
  return absl::StrCat("<style>@media (prefers-color-scheme: dark) {", rules, "}</style>\n");
}

std::string Escape(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        // XML has no control characters.
        out += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
  }
  return out;
}

std::string PathOf(absl::Span<const PlotPoint> points) {
  std::string path;
  char command = 'M';
  for (const PlotPoint& point : points) {
    absl::StrAppendFormat(&path, "%c%.1f %.1f", command, point.x, point.y);
    command = 'L';
  }
  return path;
}

const char* Name(Anchor anchor) {
  if (anchor == Anchor::kStart) return "start";
  return anchor == Anchor::kMiddle ? "middle" : "end";
}

}  // namespace

SvgCanvas::SvgCanvas(double width, double height)
    : body_(
          absl::StrFormat("<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 %.0f %.0f' "
                          "font-family='Helvetica, Arial, sans-serif'>\n",
                          width, height, width, height)) {
  absl::StrAppend(&body_, DarkTheme());
  absl::StrAppendFormat(&body_, "<rect width='100%%' height='100%%' class='f0' fill='%s'/>\n",
                        LightColour(Ink::kPaper));
}

void SvgCanvas::Text(PlotPoint at, std::string_view text, const TextStyle& style) {
  std::string place =
      absl::StrFormat("x='%.1f' y='%.1f' font-size='%g' text-anchor='%s'", at.x, at.y, style.size, Name(style.anchor));
  if (style.is_bold) absl::StrAppend(&place, " font-weight='bold'");
  if (style.is_vertical) absl::StrAppendFormat(&place, " transform='rotate(-90 %.1f %.1f)'", at.x, at.y);
  const std::string letters = Escape(text);
  // Not every viewer knows paint-order, by which one element could have the halo below its letters.
  if (style.has_halo)
    absl::StrAppendFormat(&body_,
                          "<text %s aria-hidden='true' class='f0 s0' fill='%s' stroke='%s' stroke-width='%g' "
                          "stroke-linejoin='round'>%s</text>\n",
                          place, LightColour(Ink::kPaper), LightColour(Ink::kPaper), kHaloWidth, letters);
  absl::StrAppendFormat(&body_, "<text %s class='f%d' fill='%s'>%s</text>\n", place, IndexOf(style.ink),
                        LightColour(style.ink), letters);
}

void SvgCanvas::Line(absl::Span<const PlotPoint> points, const LineStyle& style) {
  absl::StrAppendFormat(&body_,
                        "<path fill='none' class='s%d' stroke='%s' stroke-width='%g' stroke-linejoin='round'%s "
                        "d='%s'/>\n",
                        IndexOf(style.ink), LightColour(style.ink), style.width,
                        style.is_dashed ? " stroke-dasharray='5 4'" : "", PathOf(points));
}

void SvgCanvas::Area(absl::Span<const PlotPoint> points, Ink ink) {
  absl::StrAppendFormat(&body_, "<path class='f%d' fill='%s' fill-opacity='0.2' d='%sZ'/>\n", IndexOf(ink),
                        LightColour(ink), PathOf(points));
}

void SvgCanvas::Dot(PlotPoint at, double radius, Ink ink) {
  absl::StrAppendFormat(&body_, "<circle cx='%.1f' cy='%.1f' r='%g' class='f%d s0' fill='%s' stroke='%s'/>\n", at.x,
                        at.y, radius, IndexOf(ink), LightColour(ink), LightColour(Ink::kPaper));
}

double TextWidth(std::string_view text, double size) { return kLetterWidth * size * static_cast<double>(text.size()); }

}  // namespace baton::bench
