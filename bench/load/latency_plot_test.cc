#include "bench/load/latency_plot.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/civil_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

LoadSetting PlottedSetting(const Slo& slo) {
  return {.backend = "grpc",
          .target = "host:50051",
          .model = "a<b",
          .cluster = ClusterShape{.prefill = 2, .decode = 1},
          .date = absl::FromCivil(absl::CivilSecond(2026, 3, 4, 5, 6, 7), absl::UTCTimeZone()),
          .num_prompts = 10,
          .prompt_tokens = {64, 256},
          .output_tokens = {4, 4},
          .max_concurrency = 4,
          .seed = 9,
          .slo = slo};
}

// TTFT from 100 to 1,000 ms, TPOT and ITL from 10 to 28 ms.
std::vector<RequestRecord> PlottedRecords() {
  std::vector<RequestRecord> records;
  for (int i = 0; i < 10; ++i) {
    RequestRecord record{.prompt_tokens = 64, .output_tokens = 4, .start = i * kNsPerSecond};
    for (int64_t j = 0; j < 4; ++j) {
      record.outputs.push_back(record.start + ((i + 1) * 100 + j * (10 + 2 * i)) * kNsPerMs);
    }
    record.end = record.outputs.back();
    records.push_back(record);
  }
  return records;
}

TEST(LatencyPlot, SaysWhatWasMeasuredHowAndWhen) {
  const std::string svg = LatencySvg(PlottedSetting({}), PlottedRecords());
  EXPECT_THAT(svg, HasSubstr(">a&lt;b</text>"));
  EXPECT_THAT(svg, HasSubstr("2 prefill and 1 decode worker at host:50051, 2026-03-04 05:06 UTC"));
  EXPECT_THAT(svg, HasSubstr("closed loop, 4 in flight, 64 to 256 tokens in, 4 out, seed 9"));
  EXPECT_THAT(svg, HasSubstr("10 of 10 requests completed"));
  LoadSetting open = PlottedSetting({});
  open.request_rate = 2.5;
  open.cluster.reset();
  open.is_interrupted = true;
  const std::string other = LatencySvg(open, PlottedRecords());
  EXPECT_THAT(other, HasSubstr("Poisson, 2.5 requests/s"));
  EXPECT_THAT(other, HasSubstr("grpc server at host:50051"));
  EXPECT_THAT(other, HasSubstr("interrupted"));
}

TEST(LatencyPlot, EveryPanelNamesItsTermAndUnit) {
  const std::string svg = LatencySvg(PlottedSetting({}), PlottedRecords());
  for (const char* text : {"TTFT: time to first token", "TPOT: time per output token", "ITL: inter-token latency",
                           ">TTFT (ms)<", ">TPOT (ms)<", ">ITL (ms)<", ">share of requests<", ">output tokens/s<",
                           ">time since the first request (s)<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("output messages")));
}

TEST(LatencyPlot, MarksThePercentilesThatTheReportNames) {
  const std::string svg = LatencySvg(PlottedSetting({}), PlottedRecords());
  for (const char* text : {">P50 550 ms<", ">P90 910 ms<", ">P99 991 ms<", "max 1,000 ms"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST(LatencyPlot, AFarObjectiveIsLabelledAtTheEdgeAndDoesNotSqueezeTheCurve) {
  const std::string near = LatencySvg(PlottedSetting({.ttft_ms = 500}), PlottedRecords());
  EXPECT_THAT(near, HasSubstr(">SLO 500 ms<"));
  EXPECT_THAT(near, HasSubstr(">50.0 % met<"));
  const std::string far = LatencySvg(PlottedSetting({.ttft_ms = 5000}), PlottedRecords());
  EXPECT_THAT(far, HasSubstr(">SLO 5,000 ms<"));
  EXPECT_THAT(far, HasSubstr(">1,000<")) << "the last tick is that of the data";
  EXPECT_THAT(far, Not(HasSubstr(">2,000<")));
}

TEST(LatencyPlot, AnObjectiveAtTheEndOfItsAxisGetsRoomForItsLabel) {
  EXPECT_THAT(LatencySvg(PlottedSetting({.ttft_ms = 990}), PlottedRecords()), HasSubstr(">1,200<"));
  EXPECT_THAT(LatencySvg(PlottedSetting({.ttft_ms = 700}), PlottedRecords()), Not(HasSubstr(">1,200<")));
}

TEST(LatencyPlot, LongLatenciesAreInSeconds) {
  std::vector<RequestRecord> records = PlottedRecords();
  for (RequestRecord& record : records) record.start -= 20 * kNsPerSecond;
  const std::string svg = LatencySvg(PlottedSetting({}), records);
  EXPECT_THAT(svg, HasSubstr(">TTFT (s)<"));
  EXPECT_THAT(svg, HasSubstr(">P50 20.6 s<"));
}

TEST(LatencyPlot, PanelsWithoutValuesSaySo) {
  RequestRecord record{.prompt_tokens = 1, .output_tokens = 1, .end = kNsPerSecond, .outputs = {kNsPerMs}};
  const std::string svg = LatencySvg(PlottedSetting({}), {record});
  EXPECT_THAT(svg, HasSubstr(">no request had any<"));
  EXPECT_THAT(svg, HasSubstr(">1 request, max 1.00 ms<"));
  EXPECT_THAT(LatencySvg(PlottedSetting({}), {}), HasSubstr("</svg>"));
}

TEST(LatencyPlot, FollowsTheViewersTheme) {
  const std::string svg = LatencySvg(PlottedSetting({}), PlottedRecords());
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  const std::string begin = "<svg xmlns='http://www.w3.org/2000/svg' width='960' height='692'";
  EXPECT_EQ(svg.substr(0, begin.size()), begin);
}

}  // namespace
}  // namespace baton::bench
