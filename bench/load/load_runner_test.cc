#include "bench/load/load_runner.h"

#include <algorithm>
#include <set>

#include "absl/synchronization/mutex.h"
#include "bench/load/latency_plot.h"
#include "bench/load/load_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using testing::HasSubstr;

// Fails every third request and notes what it was asked. Answers at once, or once `gather` requests are in flight.
class FakeClient final : public LoadClient {
 public:
  explicit FakeClient(int gather = 0) : gather_(gather) {}

  absl::StatusOr<int> Generate(const LoadRequest& request, const std::function<void()>& on_output) override {
    absl::MutexLock lock(&mutex_);
    prompts_.insert(request.prompt);
    most_ = std::max(most_, ++in_flight_);
    const auto gathered = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return most_ >= gather_; };
    mutex_.Await(absl::Condition(&gathered));
    --in_flight_;
    if (request.output_tokens % 3 == 0) return absl::UnavailableError("every third");
    for (int i = 0; i < request.output_tokens; ++i) on_output();
    return request.output_tokens;
  }

  size_t distinct_prompts() const {
    absl::MutexLock lock(&mutex_);
    return prompts_.size();
  }
  int most_in_flight() const {
    absl::MutexLock lock(&mutex_);
    return most_;
  }

 private:
  const int gather_;
  mutable absl::Mutex mutex_;
  std::set<std::vector<int32_t>> prompts_ ABSL_GUARDED_BY(mutex_);
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  int most_ ABSL_GUARDED_BY(mutex_) = 0;
};

std::vector<PlannedRequest> Plan(int count, int64_t gap_ns = 0) {
  std::vector<PlannedRequest> plan;
  for (int i = 0; i < count; ++i) {
    plan.push_back({.arrival_ns = i * gap_ns, .prompt_tokens = 8, .output_tokens = i + 1});
  }
  return plan;
}

TEST(RunLoad, RecordsEveryRequestInTheOrderOfThePlan) {
  FakeClient client;
  LoadProgress progress;
  const auto records =
      RunLoad(Plan(9), {.concurrency = 4, .seed = 1, .vocab_size = 1000}, client, MonotonicClock(), progress);
  ASSERT_EQ(records.size(), 9u);
  for (int i = 0; i < 9; ++i) {
    const RequestRecord& record = records[static_cast<size_t>(i)];
    EXPECT_EQ(record.prompt_tokens, 8);
    EXPECT_EQ(record.status.ok(), (i + 1) % 3 != 0) << i;
    if (!record.status.ok()) continue;
    EXPECT_EQ(record.output_tokens, i + 1);
    EXPECT_EQ(record.outputs.size(), static_cast<size_t>(i + 1));
    EXPECT_TRUE(std::is_sorted(record.outputs.begin(), record.outputs.end()));
    EXPECT_LE(record.start, record.outputs.front());
    EXPECT_LE(record.outputs.back(), record.end);
  }
  EXPECT_EQ(progress.ended, 9);
  EXPECT_EQ(progress.failed, 3);
  EXPECT_EQ(client.distinct_prompts(), 9u);
}

TEST(RunLoad, KeepsExactlyTheConcurrencyInFlight) {
  FakeClient client(/*gather=*/5);
  LoadProgress progress;
  RunLoad(Plan(40), {.concurrency = 5, .vocab_size = 1000}, client, MonotonicClock(), progress);
  EXPECT_EQ(client.most_in_flight(), 5);
}

TEST(RunLoad, AnOpenLoopStartsRequestsWhenTheyAreDue) {
  FakeClient client;
  LoadProgress progress;
  constexpr int64_t kGapNs = 2 * kNsPerMs;
  const auto records =
      RunLoad(Plan(5, kGapNs), {.concurrency = 2, .vocab_size = 1000}, client, MonotonicClock(), progress);
  for (size_t i = 1; i < records.size(); ++i) {
    EXPECT_EQ(records[i].start - records[i - 1].start, kGapNs);
    if (records[i].status.ok()) {
      EXPECT_GE(records[i].outputs.front(), records[i].start);
    }
  }
}

TEST(LoadReport, CarriesTheNamesOfVllmsBenchmark) {
  FakeClient client;
  LoadProgress progress;
  const auto records = RunLoad(Plan(4), {.concurrency = 1, .vocab_size = 10}, client, MonotonicClock(), progress);
  const auto json = LoadJson({.backend = "grpc"}, Summarize(records, {}), records, /*with_records=*/true);
  for (const char* key : {"duration",
                          "completed",
                          "failed",
                          "total_input_tokens",
                          "total_output_tokens",
                          "request_throughput",
                          "request_goodput",
                          "output_throughput",
                          "total_token_throughput",
                          "mean_ttft_ms",
                          "median_ttft_ms",
                          "std_ttft_ms",
                          "p90_ttft_ms",
                          "p99_ttft_ms",
                          "mean_tpot_ms",
                          "p99_tpot_ms",
                          "median_itl_ms",
                          "p99_e2el_ms",
                          "input_lens",
                          "output_lens",
                          "ttfts",
                          "itls",
                          "errors"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["completed"], 3);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["request_rate"], "inf");
  EXPECT_EQ(json["itls"][1].size(), 1u);
  EXPECT_THAT(ErrorLines(records, 5), HasSubstr("1 x every third"));
}

TEST(LatencyPlot, DrawsEveryPanelAndEscapesTheTitle) {
  FakeClient client;
  LoadProgress progress;
  const auto records = RunLoad(Plan(8), {.concurrency = 2, .vocab_size = 10}, client, MonotonicClock(), progress);
  const std::string svg = LatencySvg("a<b", records, {.ttft_ms = 100});
  EXPECT_THAT(svg, HasSubstr("a&lt;b"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray"));
  for (const char* title : {"time to first token", "time per output token", "between output messages"}) {
    EXPECT_THAT(svg, HasSubstr(title));
  }
  EXPECT_THAT(LatencySvg("none", {}, {}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace baton::bench
