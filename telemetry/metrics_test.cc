#include "telemetry/metrics.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "common/testing/manual_clock.h"
#include "common/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Render(const std::shared_ptr<prometheus::Registry>& registry) {
  return RenderMetrics({std::static_pointer_cast<prometheus::Collectable>(registry)});
}

TEST(Metrics, BucketsAscendAndReachFromTheSmallestModelToTheLargest) {
  for (const Buckets* buckets :
       {&TtftBuckets(), &ItlBuckets(), &EndToEndBuckets(), &PhaseBuckets(), &EngineStepBuckets(), &CountBuckets()}) {
    EXPECT_TRUE(std::is_sorted(buckets->begin(), buckets->end(), std::less_equal<>()));
  }
  EXPECT_EQ(TtftBuckets().size(), 22u);
  EXPECT_EQ(TtftBuckets().back(), 2560);
  EXPECT_EQ(ItlBuckets().front(), .001);
  EXPECT_EQ(EndToEndBuckets().back(), 3600);
  EXPECT_EQ(PhaseBuckets().front(), .0005);
  EXPECT_EQ(PhaseBuckets().back(), 1800);
  EXPECT_EQ(EngineStepBuckets().front(), .0001);
  EXPECT_EQ(CountBuckets().back(), 1048576);
}

TEST(Metrics, TheTextHasTypeHelpLabelsAndValues) {
  const auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter().Name("jobs_total").Help("Jobs").Register(*registry).Add({{"outcome", "ok"}}).Increment(3);
  prometheus::BuildHistogram()
      .Name("wait_seconds")
      .Help("Waits")
      .Register(*registry)
      .Add({}, Buckets{.5, 1})
      .Observe(.7);
  EXPECT_THAT(Render(registry),
              AllOf(HasSubstr("# HELP jobs_total Jobs\n# TYPE jobs_total counter\n"),
                    HasSubstr("jobs_total{outcome=\"ok\"} 3\n"), HasSubstr("wait_seconds_bucket{le=\"0.5\"} 0\n"),
                    HasSubstr("wait_seconds_bucket{le=\"1\"} 1\n"), HasSubstr("wait_seconds_bucket{le=\"+Inf\"} 1\n"),
                    HasSubstr("wait_seconds_count 1\n")));
}

TEST(Metrics, NoNameThatAClientChoseBreaksTheText) {
  const auto registry = std::make_shared<prometheus::Registry>();
  const std::string hostile = "a\"} 1\nevil_total 9\n\\ \xFF\xC3(\xE2\x82";
  prometheus::BuildCounter().Name("jobs_total").Register(*registry).Add({{"model", LabelValue(hostile)}});
  const std::string text = Render(registry);
  EXPECT_THAT(text, HasSubstr("jobs_total{model=\"a\\\"} 1\\nevil_total 9\\n\\\\ "
                              "\xEF\xBF\xBD\xEF\xBF\xBD(\xEF\xBF\xBD\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nevil_total")));
}

TEST(Metrics, ALabelIsCutBetweenCharacters) {
  EXPECT_EQ(LabelValue(std::string(kMaxLabelValueBytes, 'x')).size(), kMaxLabelValueBytes);
  EXPECT_EQ(LabelValue(std::string(kMaxLabelValueBytes + 1, 'x')), std::string(kMaxLabelValueBytes, 'x'));
  const std::string almost(kMaxLabelValueBytes - 2, 'x');
  EXPECT_EQ(LabelValue(almost + "\xE2\x82\xAC"), almost);
  // What is no UTF-8 anyway stays as long as it may.
  EXPECT_EQ(LabelValue(std::string(200, '\xFF')).size(), kMaxLabelValueBytes * 3);
}

using BoundedCounters = BoundedFamily<prometheus::Counter>;

void AddTo(BoundedCounters& bounded, absl::Span<const std::string_view> values, double value) {
  bounded.Update(values, [value](prometheus::Counter& counter) { counter.Increment(value); });
}

TEST(BoundedFamily, BeyondItsBoundTheSetThatWasUnusedLongestMakesRoom) {
  const auto registry = std::make_shared<prometheus::Registry>();
  BoundedCounters bounded(prometheus::BuildCounter().Name("bytes_total").Register(*registry), {"source", "target"},
                          {.max_sets = 2});
  AddTo(bounded, {"a", "b"}, 1);
  AddTo(bounded, {"a", "c"}, 2);
  AddTo(bounded, {"a", "b"}, 4);
  AddTo(bounded, {"x", "y"}, 8);
  std::string text = Render(registry);
  EXPECT_THAT(text, HasSubstr("bytes_total{source=\"a\",target=\"b\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("bytes_total{source=\"x\",target=\"y\"} 8\n"));
  EXPECT_THAT(text, Not(HasSubstr("\"c\"")));
  AddTo(bounded, {"a", "c"}, 16);
  text = Render(registry);
  EXPECT_THAT(text, HasSubstr("bytes_total{source=\"a\",target=\"c\"} 16\n")) << "what comes back starts anew";
  EXPECT_THAT(text, HasSubstr("bytes_total{source=\"x\",target=\"y\"} 8\n"));
  EXPECT_THAT(text, Not(HasSubstr("\"b\"")));
}

TEST(BoundedFamily, ANewSetTakesThePlaceOfAllThatAreIdle) {
  const auto registry = std::make_shared<prometheus::Registry>();
  ManualClock clock;
  BoundedCounters bounded(prometheus::BuildCounter().Name("bytes_total").Register(*registry), {"source"},
                          {.max_sets = 8, .clock = clock});
  for (const char* gone : {"a", "b"}) AddTo(bounded, {gone}, 1);
  AddTo(bounded, {"used"}, 1);
  clock.AdvanceMs(kIdleSetMs - 1);
  AddTo(bounded, {"used"}, 1);
  AddTo(bounded, {"early"}, 1);
  EXPECT_THAT(Render(registry), HasSubstr("source=\"a\""));
  clock.AdvanceMs(1);
  AddTo(bounded, {"new"}, 1);
  const std::string text = Render(registry);
  EXPECT_THAT(text, AllOf(HasSubstr("bytes_total{source=\"used\"} 2\n"), HasSubstr("\"early\""), HasSubstr("\"new\"")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\"a\"")), Not(HasSubstr("\"b\""))));
}

TEST(BoundedFamily, HistogramsTakeTheirBuckets) {
  const auto registry = std::make_shared<prometheus::Registry>();
  auto& family = prometheus::BuildHistogram().Name("step_seconds").Register(*registry);
  BoundedFamily<prometheus::Histogram> bounded(family, {"kind"}, {.max_sets = 4}, EngineStepBuckets());
  bounded.Update({"decode"}, [](prometheus::Histogram& seconds) { seconds.Observe(.002); });
  EXPECT_THAT(Render(registry), HasSubstr("step_seconds_bucket{kind=\"decode\",le=\"0.0025\"} 1\n"));
}

TEST(BoundedFamily, ManyThreadsNeverExceedTheBoundAndLoseNothingWithinIt) {
  const auto registry = std::make_shared<prometheus::Registry>();
  BoundedCounters crowded(prometheus::BuildCounter().Name("crowded_total").Register(*registry), {"k"}, {.max_sets = 8});
  BoundedCounters roomy(prometheus::BuildCounter().Name("roomy_total").Register(*registry), {"k"}, {.max_sets = 40});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const std::string key = std::to_string(i % 40);
        AddTo(crowded, {key}, 1);
        AddTo(roomy, {key}, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  double sum = 0;
  for (const prometheus::MetricFamily& family : registry->Collect()) {
    const bool is_roomy = family.name == "roomy_total";
    EXPECT_EQ(family.metric.size(), is_roomy ? 40u : 8u);
    for (const prometheus::ClientMetric& metric : family.metric) sum += is_roomy ? metric.counter.value : 0;
  }
  EXPECT_EQ(sum, 2000);
}

TEST(CallbackMetrics, ReadValuesWhenTheyAreAskedFor) {
  const auto metrics = std::make_shared<CallbackMetrics>();
  double value = 1;
  metrics->AddGauge("depth", "Depth", [&] { return value; });
  metrics->AddCounter("spans_total", "Spans", [] { return 5.0; }, {{"result", "exported"}});
  metrics->AddCounter("spans_total", "Spans", [] { return 6.0; }, {{"result", "dropped"}});
  metrics->AddGauges("load", "Load", [] {
    return std::vector<CallbackMetrics::Sample>{{{{"worker", "a\"\xFF"}}, 1}, {{{"worker", "b"}}, 2}};
  });
  value = 7;
  const std::string text = RenderMetrics({std::static_pointer_cast<prometheus::Collectable>(metrics)});
  EXPECT_THAT(text, HasSubstr("# TYPE depth gauge\ndepth 7\n"));
  EXPECT_THAT(
      text,
      HasSubstr("# TYPE spans_total counter\nspans_total{result=\"exported\"} 5\nspans_total{result=\"dropped\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("load{worker=\"a\\\"\xEF\xBF\xBD\"} 1\nload{worker=\"b\"} 2\n"));
}

TEST(Metrics, TheBuildStatesItsVersion) {
  const auto registry = std::make_shared<prometheus::Registry>();
  AddBuildInfo(*registry, {.role = "router", .model = "m", .numerics = "exact", .transport = "auto"});
  EXPECT_THAT(Render(registry), HasSubstr(std::string("version=\"") + kVersion + "\"} 1\n"));
  EXPECT_THAT(Render(registry), HasSubstr("role=\"router\""));
}

}  // namespace
}  // namespace baton::telemetry
