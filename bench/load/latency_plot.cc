#include "bench/load/latency_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/load/plot_panel.h"
#include "bench/load/plot_scale.h"
#include "bench/load/summary.h"
#include "bench/load/svg_canvas.h"

namespace baton::bench {
namespace {

constexpr double kPanelWidth = 480;
constexpr double kPanelHeight = 300;
constexpr double kTitleHeight = 92;
constexpr double kTitleLeft = 24;
constexpr double kTitleSize = 19;
// An objective up to this share of its axis has room for its label on its right.
constexpr double kLabelledShare = 0.8;
constexpr int kMostTimeSteps = 6;
constexpr int kMostTimeBins = 60;
constexpr int kMostRateSteps = 5;
// From here on an axis shows seconds.
constexpr double kSecondsFromMs = 10'000;

struct LatencyPanel {
  const char* name;
  const char* meaning;
  // What has a value each.
  const char* of_what;
  std::vector<double> values_ms;
  double slo_ms = 0;
};

// "15.9 ms", or "12.0 s" on an axis of seconds.
std::string WithUnit(double value_ms, bool in_seconds) {
  return in_seconds ? absl::StrFormat("%.1f s", value_ms / 1e3) : absl::StrCat(ValueLabel(value_ms), " ms");
}

// As it was asked for: "1,500 ms".
std::string ObjectiveLabel(double slo_ms, bool in_seconds) {
  if (in_seconds) return absl::StrFormat("%g s", slo_ms / 1e3);
  return absl::StrCat(slo_ms == std::floor(slo_ms) ? TickLabel(slo_ms, 1) : ValueLabel(slo_ms), " ms");
}

// An axis that leaves room for an objective's label to the right of its line.
PlotAxis AxisOf(double reach, double objective) {
  PlotAxis axis = RoundAxis(reach, kMostTimeSteps);
  if (objective > kLabelledShare * axis.max && objective <= axis.max) axis.max += axis.step;
  return axis;
}

void DrawObjective(const LatencyPanel& of, bool in_seconds, PlotPanel& panel) {
  if (of.slo_ms <= 0) return;
  const auto met = std::upper_bound(of.values_ms.begin(), of.values_ms.end(), of.slo_ms) - of.values_ms.begin();
  const double share = static_cast<double>(met) / static_cast<double>(of.values_ms.size());
  panel.MarkObjective(
      in_seconds ? of.slo_ms / 1e3 : of.slo_ms, share,
      {absl::StrCat("SLO ", ObjectiveLabel(of.slo_ms, in_seconds)), absl::StrFormat("%.1f %% met", 100 * share)});
}

void DrawLatencies(LatencyPanel of, PlotPoint corner, SvgCanvas& canvas) {
  const PlotFrame frame = {.corner = corner, .width = kPanelWidth, .height = kPanelHeight};
  const std::string title = absl::StrCat(of.name, ": ", of.meaning);
  const std::string share = absl::StrCat("share of ", of.of_what, "s");
  const PlotAxis shares = {.max = 1, .step = 0.2};
  if (of.values_ms.empty()) {
    PlotPanel(frame,
              {.title = title,
               .note = "no request had any",
               .x = {1, 0.2},
               .y = shares,
               .x_label = absl::StrCat(of.name, " (ms)"),
               .y_label = share},
              canvas);
    return;
  }
  std::sort(of.values_ms.begin(), of.values_ms.end());
  const double reach_ms = ReachOf(of.values_ms, of.slo_ms);
  const bool in_seconds = reach_ms >= kSecondsFromMs;
  const double scale = in_seconds ? 1e-3 : 1;
  std::vector<double> values = of.values_ms;
  for (double& value : values) value *= scale;
  const PlotAxis axis = AxisOf(reach_ms * scale, of.slo_ms * scale);
  const std::string note =
      absl::StrCat(TickLabel(static_cast<double>(values.size()), 1), " ", of.of_what, values.size() == 1 ? "" : "s",
                   ", max ", WithUnit(of.values_ms.back(), in_seconds), values.back() > axis.max ? " (not shown)" : "");
  PlotPanel panel(frame,
                  {.title = title,
                   .note = note,
                   .x = axis,
                   .y = shares,
                   .x_label = absl::StrCat(of.name, in_seconds ? " (s)" : " (ms)"),
                   .y_label = share},
                  canvas);
  panel.Curve(CumulativeCurve(values, axis.max));
  DrawObjective(of, in_seconds, panel);
  for (int percent : {50, 90, 99}) {
    const double value = Percentile(values, percent);
    panel.MarkPoint({value, percent / 100.0},
                    absl::StrCat("P", percent, " ", WithUnit(Percentile(of.values_ms, percent), in_seconds)));
  }
}

// Outputs in bins of a round width.
struct OutputRate {
  double seconds = 0;
  double bin_seconds = 1;
  std::vector<int> bins;
  int64_t outputs = 0;

  // The last bin reaches to the end of the run: half a bin shorter or longer than the others.
  double WidthOf(size_t bin) const {
    return bin + 1 == bins.size() ? seconds - static_cast<double>(bin) * bin_seconds : bin_seconds;
  }
};

OutputRate CountOutputs(absl::Span<const RequestRecord> records) {
  TimeNs begin = kNever;
  TimeNs end = 0;
  for (const RequestRecord& record : records) {
    begin = std::min(begin, record.start);
    end = std::max(end, record.end);
  }
  OutputRate rate;
  if (end <= begin) return rate;
  rate.seconds = static_cast<double>(end - begin) / kNsPerSecond;
  rate.bin_seconds = RoundUpToStep(rate.seconds / kMostTimeBins);
  rate.bins.resize(static_cast<size_t>(std::max(1.0, std::round(rate.seconds / rate.bin_seconds))));
  for (const RequestRecord& record : records) {
    for (TimeNs time : record.outputs) {
      const double at = static_cast<double>(time - begin) / kNsPerSecond / rate.bin_seconds;
      ++rate.bins[std::min(static_cast<size_t>(at), rate.bins.size() - 1)];
      ++rate.outputs;
    }
  }
  return rate;
}

// Servers that do not number their tokens send pieces of text, of any number of tokens each.
std::string OutputWord(absl::Span<const RequestRecord> records) {
  const bool has_tokens = std::all_of(records.begin(), records.end(), [](const RequestRecord& record) {
    return !record.status.ok() || record.outputs.size() == static_cast<size_t>(record.output_tokens);
  });
  return has_tokens ? "tokens" : "pieces of text";
}

void DrawOutputs(absl::Span<const RequestRecord> records, PlotPoint corner, SvgCanvas& canvas) {
  const OutputRate rate = CountOutputs(records);
  const std::string word = OutputWord(records);
  std::vector<PlotPoint> steps;
  double most = 0;
  for (size_t i = 0; i < rate.bins.size(); ++i) {
    const double left = static_cast<double>(i) * rate.bin_seconds;
    const double height = rate.bins[i] / rate.WidthOf(i);
    steps.push_back({left, height});
    steps.push_back({left + rate.WidthOf(i), height});
    most = std::max(most, height);
  }
  PlotPanel panel({.corner = corner, .width = kPanelWidth, .height = kPanelHeight},
                  {.title = "Output throughput",
                   .note = absl::StrFormat("%s %s, bins of %g s", TickLabel(static_cast<double>(rate.outputs), 1), word,
                                           rate.bin_seconds),
                   .x = RoundAxis(rate.seconds, kMostTimeSteps),
                   .y = RoundAxis(most, kMostRateSteps),
                   .x_label = "time since the first request (s)",
                   .y_label = absl::StrCat("output ", word, "/s")},
                  canvas);
  panel.Fill(steps);
  panel.Curve(steps);
  if (rate.seconds > 0) {
    const double mean = static_cast<double>(rate.outputs) / rate.seconds;
    panel.MarkLevel(mean, rate.seconds, absl::StrCat("mean ", ValueLabel(mean), " ", word, "/s"));
  }
}

void DrawTitle(const LoadSetting& setting, const LoadSummary& summary, SvgCanvas& canvas) {
  canvas.Text({kTitleLeft, 32}, setting.model, {.size = kTitleSize, .is_bold = true});
  canvas.Text({kTitleLeft, 54}, absl::StrCat(DescribeServer(setting), ", ", DescribeDate(setting)), {.size = 13});
  canvas.Text({kTitleLeft, 73}, DescribeLoad(setting), {.size = 13});
  std::string outcome = absl::StrCat(summary.completed, " of ", setting.num_prompts, " requests completed");
  if (summary.failed > 0) absl::StrAppend(&outcome, ", ", summary.failed, " failed");
  if (setting.is_interrupted) absl::StrAppend(&outcome, ", interrupted");
  const bool is_whole = summary.completed == setting.num_prompts;
  canvas.Text(
      {2 * kPanelWidth - kTitleLeft, 32}, outcome,
      {.size = 13, .ink = is_whole ? Ink::kText : Ink::kObjective, .anchor = Anchor::kEnd, .is_bold = !is_whole});
}

}  // namespace

std::string LatencySvg(const LoadSetting& setting, absl::Span<const RequestRecord> records) {
  Latencies latencies = LatenciesOf(records);
  SvgCanvas canvas(2 * kPanelWidth, kTitleHeight + 2 * kPanelHeight);
  DrawTitle(setting, Summarize(records, setting.slo), canvas);
  DrawLatencies({"TTFT", "time to first token", "request", std::move(latencies.ttft_ms), setting.slo.ttft_ms},
                {0, kTitleHeight}, canvas);
  DrawLatencies({"TPOT", "time per output token", "request", std::move(latencies.tpot_ms), setting.slo.tpot_ms},
                {kPanelWidth, kTitleHeight}, canvas);
  DrawLatencies({"ITL", "inter-token latency", "token gap", std::move(latencies.itl_ms), 0},
                {0, kTitleHeight + kPanelHeight}, canvas);
  DrawOutputs(records, {kPanelWidth, kTitleHeight + kPanelHeight}, canvas);
  return canvas.Finish();
}

}  // namespace baton::bench
