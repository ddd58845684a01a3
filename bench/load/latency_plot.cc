#include "bench/load/latency_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace baton::bench {
namespace {

constexpr double kPanelWidth = 420;
constexpr double kPanelHeight = 240;
constexpr double kMargin = 50;
constexpr double kTitleHeight = 40;
constexpr int kTicks = 4;
// More points would not show on the curve.
constexpr size_t kMaxPoints = 400;
constexpr int kTimeBins = 80;

struct Point {
  double x;
  double y;
};

struct Panel {
  std::string title;
  std::string x_unit;
  std::string y_unit;
  double x_max = 1;
  double y_max = 1;
  std::vector<Point> curve;
  // 0: none.
  double dashed_x = 0;
};

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// The least number that is not below `value` and is 1, 2 or 5 times a power of ten.
double RoundUp(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double step : {1.0, 2.0, 5.0}) {
    if (step * power >= value) return step * power;
  }
  return 10 * power;
}

Panel Cumulative(std::string title, std::vector<double> values_ms, double slo_ms) {
  std::sort(values_ms.begin(), values_ms.end());
  Panel panel{.title = std::move(title), .x_unit = "ms", .y_unit = "share", .dashed_x = slo_ms};
  if (values_ms.empty()) return panel;
  panel.x_max = RoundUp(std::max(Percentile(values_ms, 99.5), slo_ms));
  const size_t step = std::max<size_t>(1, values_ms.size() / kMaxPoints);
  for (size_t i = 0; i < values_ms.size(); i += step) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(values_ms.size());
    if (values_ms[i] <= panel.x_max) panel.curve.push_back({values_ms[i], share});
  }
  return panel;
}

Panel OutputsOverTime(absl::Span<const RequestRecord> records) {
  Panel panel{.title = "output messages a second", .x_unit = "s", .y_unit = "1/s"};
  TimeNs begin = kNever;
  TimeNs end = 0;
  for (const RequestRecord& record : records) {
    begin = std::min(begin, record.start);
    end = std::max(end, record.end);
  }
  if (end <= begin) return panel;
  const double seconds = static_cast<double>(end - begin) / kNsPerSecond;
  std::vector<int> bins(kTimeBins);
  for (const RequestRecord& record : records) {
    for (TimeNs time : record.outputs) {
      const auto bin =
          static_cast<size_t>(static_cast<double>(time - begin) / static_cast<double>(end - begin) * (kTimeBins - 1));
      ++bins[bin];
    }
  }
  const double bin_seconds = seconds / kTimeBins;
  panel.x_max = RoundUp(seconds);
  panel.y_max = RoundUp(*std::max_element(bins.begin(), bins.end()) / bin_seconds);
  for (int i = 0; i < kTimeBins; ++i) panel.curve.push_back({(i + 0.5) * bin_seconds, bins[i] / bin_seconds});
  return panel;
}

void AppendPanel(const Panel& panel, double left, double top, std::string& svg) {
  const auto x = [&](double value) { return left + kMargin + value / panel.x_max * (kPanelWidth - 1.4 * kMargin); };
  const auto y = [&](double value) {
    return top + kPanelHeight - kMargin - value / panel.y_max * (kPanelHeight - 1.6 * kMargin);
  };
  absl::StrAppendFormat(&svg, "<text x='%.0f' y='%.0f' font-weight='bold'>%s</text>\n", left + kMargin, top + 20,
                        panel.title);
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double at_x = panel.x_max * tick / kTicks;
    const double at_y = panel.y_max * tick / kTicks;
    absl::StrAppendFormat(&svg, "<path d='M%.1f %.1fH%.1f' stroke='#ddd'/>\n", x(0), y(at_y), x(panel.x_max));
    absl::StrAppendFormat(&svg, "<text x='%.1f' y='%.1f' text-anchor='middle'>%g</text>\n", x(at_x), y(0) + 16, at_x);
    absl::StrAppendFormat(&svg, "<text x='%.1f' y='%.1f' text-anchor='end'>%g</text>\n", x(0) - 6, y(at_y) + 4, at_y);
  }
  absl::StrAppendFormat(&svg, "<text x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n", x(panel.x_max), y(0) + 30,
                        panel.x_unit);
  absl::StrAppendFormat(&svg, "<text x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n", x(0) - 6, y(panel.y_max) - 10,
                        panel.y_unit);
  if (panel.dashed_x > 0) {
    absl::StrAppendFormat(&svg, "<path d='M%.1f %.1fV%.1f' stroke='#c22' stroke-dasharray='5 4'/>\n", x(panel.dashed_x),
                          y(0), y(panel.y_max));
  }
  if (panel.curve.empty()) return;
  svg += "<path fill='none' stroke='#1f6fb4' stroke-width='2' d='";
  char command = 'M';
  for (const Point& point : panel.curve) {
    absl::StrAppendFormat(&svg, "%c%.1f %.1f", command, x(point.x), y(point.y));
    command = 'L';
  }
  svg += "'/>\n";
}

}  // namespace

std::string LatencySvg(const std::string& title, absl::Span<const RequestRecord> records, const Slo& slo) {
  Latencies latencies = LatenciesOf(records);
  const std::vector<Panel> panels = {
      Cumulative("time to first token", std::move(latencies.ttft_ms), slo.ttft_ms),
      Cumulative("time per output token", std::move(latencies.tpot_ms), slo.tpot_ms),
      Cumulative("between output messages", std::move(latencies.itl_ms), 0),
      OutputsOverTime(records),
  };
  std::string svg = absl::StrFormat(
      "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' font-family='sans-serif' font-size='12'>\n"
      "<rect width='100%%' height='100%%' fill='white'/>\n<text x='%.0f' y='26' font-size='16'>%s</text>\n",
      2 * kPanelWidth, kTitleHeight + 2 * kPanelHeight, kMargin, Escape(title));
  for (size_t i = 0; i < panels.size(); ++i) {
    AppendPanel(panels[i], static_cast<double>(i % 2) * kPanelWidth,
                kTitleHeight + static_cast<double>(i / 2) * kPanelHeight, svg);
  }
  return svg + "</svg>\n";
}

}  // namespace baton::bench
