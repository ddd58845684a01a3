#include "bench/load/summary.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

const std::vector<double> kValues = {12.5, 3.25, 7.75, 101.0, 55.5, 18.125, 9.0, 44.0, 2.0, 31.0};

TimeNs Ms(double ms) { return static_cast<TimeNs>(ms * kNsPerMs); }

// A request with outputs at the given milliseconds after its start. It ends `tail_ms` after the last one.
RequestRecord Record(double start_ms, const std::vector<double>& outputs_ms, double tail_ms = 0) {
  RequestRecord record{
      .prompt_tokens = 10, .output_tokens = static_cast<int>(outputs_ms.size()), .start = Ms(start_ms)};
  for (double at : outputs_ms) record.outputs.push_back(Ms(start_ms + at));
  record.end = Ms(start_ms + outputs_ms.back() + tail_ms);
  return record;
}

RequestRecord Failed(double start_ms) {
  return {
      .prompt_tokens = 10, .start = Ms(start_ms), .end = Ms(start_ms + 1), .status = absl::UnavailableError("gone")};
}

TEST(Percentile, IsWhatNumpySays) {
  std::vector<double> sorted = kValues;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_DOUBLE_EQ(Percentile(sorted, 0), 2.0);
  EXPECT_NEAR(Percentile(sorted, 25), 8.0625, 1e-12);
  EXPECT_NEAR(Percentile(sorted, 37.3), 10.249500000000001, 1e-12);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 100), 101.0);
  EXPECT_DOUBLE_EQ(Percentile({7.0}, 99), 7.0);
}

TEST(Describe, IsWhatNumpySays) {
  const Distribution of = Describe(kValues);
  EXPECT_NEAR(of.mean, 28.4125, 1e-12);
  EXPECT_NEAR(of.median, 15.3125, 1e-12);
  EXPECT_NEAR(of.std, 29.57353388166521, 1e-12);
  EXPECT_NEAR(of.p90, 60.05, 1e-12);
  EXPECT_NEAR(of.p99, 96.905, 1e-12);
  EXPECT_EQ(of.max, 101.0);
  EXPECT_EQ(of.count, kValues.size());
}

TEST(Describe, OfNothingIsZero) {
  const Distribution of = Describe({});
  EXPECT_EQ(of.mean, 0);
  EXPECT_EQ(of.p99, 0);
}

TEST(Latencies, TpotIsTheTimeAfterTheFirstOutputSharedByTheTokensAfterTheFirst) {
  const std::vector<RequestRecord> records = {Record(5, {100, 120, 150}, /*tail_ms=*/10)};
  const Latencies latencies = LatenciesOf(records);
  EXPECT_THAT(latencies.ttft_ms, ElementsAre(DoubleNear(100, 1e-9)));
  EXPECT_THAT(latencies.e2el_ms, ElementsAre(DoubleNear(160, 1e-9)));
  EXPECT_THAT(latencies.tpot_ms, ElementsAre(DoubleNear((160 - 100) / 2.0, 1e-9)));
  EXPECT_THAT(latencies.itl_ms, ElementsAre(DoubleNear(20, 1e-9), DoubleNear(30, 1e-9)));
}

TEST(Latencies, TpotCountsTokensNotMessages) {
  RequestRecord record = Record(0, {100, 200});
  record.output_tokens = 5;
  EXPECT_THAT(LatenciesOf({record}).tpot_ms, ElementsAre(DoubleNear(25, 1e-9)));
}

TEST(Latencies, OneTokenHasNoTpotAndNoItl) {
  const std::vector<RequestRecord> records = {Record(0, {100})};
  const Latencies latencies = LatenciesOf(records);
  EXPECT_EQ(latencies.ttft_ms.size(), 1u);
  EXPECT_TRUE(latencies.tpot_ms.empty());
  EXPECT_TRUE(latencies.itl_ms.empty());
}

TEST(Latencies, FailedRequestsHaveNone) {
  const Latencies latencies = LatenciesOf({Failed(0)});
  EXPECT_TRUE(latencies.ttft_ms.empty());
  EXPECT_TRUE(latencies.e2el_ms.empty());
}

TEST(Summarize, ThroughputIsOverFirstStartToLastEnd) {
  const std::vector<RequestRecord> records = {Record(1000, {100, 200}), Record(1500, {500, 1500}), Failed(1200)};
  const LoadSummary summary = Summarize(records, {});
  EXPECT_EQ(summary.completed, 2);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_DOUBLE_EQ(summary.duration_s, 2.0);
  EXPECT_EQ(summary.total_input_tokens, 20);
  EXPECT_EQ(summary.total_output_tokens, 4);
  EXPECT_DOUBLE_EQ(summary.request_throughput, 1.0);
  EXPECT_DOUBLE_EQ(summary.output_throughput, 2.0);
  EXPECT_DOUBLE_EQ(summary.total_token_throughput, 12.0);
}

TEST(Summarize, GoodputCountsRequestsThatMeetEveryBound) {
  const std::vector<RequestRecord> records = {
      Record(0, {100, 120}),       // both good
      Record(0, {300, 320}),       // TTFT too long
      Record(0, {100, 190}),       // TPOT too long
      Record(0, {200, 250, 1000})  // both too long
  };
  const LoadSummary summary = Summarize(records, {.ttft_ms = 150, .tpot_ms = 40});
  EXPECT_DOUBLE_EQ(summary.duration_s, 1.0);
  EXPECT_DOUBLE_EQ(summary.request_goodput, 1.0);
  EXPECT_DOUBLE_EQ(summary.slo_attainment, 0.25);
  EXPECT_DOUBLE_EQ(summary.ttft_attainment, 0.5);
  EXPECT_DOUBLE_EQ(summary.tpot_attainment, 0.5);
  EXPECT_DOUBLE_EQ(Summarize(records, {.ttft_ms = 150}).request_goodput, 2.0);
  EXPECT_DOUBLE_EQ(Summarize(records, {}).request_goodput, 4.0);
}

TEST(Summarize, ABoundIsMetByItsOwnValue) {
  const LoadSummary summary = Summarize({Record(0, {150, 190})}, {.ttft_ms = 150, .tpot_ms = 40});
  EXPECT_DOUBLE_EQ(summary.slo_attainment, 1.0);
}

TEST(Summarize, FailedRequestsLowerTheAttainment) {
  EXPECT_DOUBLE_EQ(Summarize({Record(0, {100}), Failed(0)}, {.ttft_ms = 150}).slo_attainment, 0.5);
}

TEST(Summarize, AStreamWithoutOutputIsAFailure) {
  RequestRecord record;
  record.end = Ms(5);
  const LoadSummary summary = Summarize({record}, {});
  EXPECT_EQ(summary.completed, 0);
  EXPECT_EQ(summary.failed, 1);
}

TEST(Summarize, CutRequestsHaveNeitherCompletedNorFailed) {
  RequestRecord cut = Record(100, {100, 9000});
  cut.status = absl::CancelledError("cut");
  cut.was_cut = true;
  const LoadSummary summary = Summarize({Record(0, {100, 1000}), cut, Failed(200)}, {.ttft_ms = 150});
  EXPECT_EQ(summary.completed, 1);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.cut, 1);
  EXPECT_DOUBLE_EQ(summary.duration_s, 1.0);
  EXPECT_DOUBLE_EQ(summary.slo_attainment, 0.5);
  EXPECT_EQ(summary.max_concurrent_requests, 3);
}

TEST(Summarize, ConcurrencyIsTheMostAtOneTime) {
  EXPECT_EQ(Summarize({Record(0, {10}), Record(10, {10}), Record(15, {10})}, {}).max_concurrent_requests, 2);
}

TEST(Summarize, OfNothingIsZero) {
  const LoadSummary summary = Summarize({}, {.ttft_ms = 1});
  EXPECT_EQ(summary.completed, 0);
  EXPECT_EQ(summary.duration_s, 0);
  EXPECT_EQ(summary.request_throughput, 0);
}

}  // namespace
}  // namespace baton::bench
