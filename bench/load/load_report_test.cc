#include "bench/load/load_report.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

RequestRecord Ended(int tokens) {
  RequestRecord record{.prompt_tokens = 8, .output_tokens = tokens, .end = 100 * kNsPerMs};
  for (int i = 0; i < tokens; ++i) record.outputs.push_back((i + 1) * 10 * kNsPerMs);
  return record;
}

RequestRecord EndedWith(const char* error) {
  return {.prompt_tokens = 8, .end = kNsPerMs, .status = absl::UnavailableError(error)};
}

std::string TableOf(const LoadSetting& setting, const std::vector<RequestRecord>& records) {
  return LoadTable(setting, Summarize(records, setting.slo), records);
}

TEST(LoadJson, CarriesTheNamesOfVllmsBenchmark) {
  const std::vector<RequestRecord> records = {Ended(1), Ended(2), EndedWith("gone"), Ended(4)};
  const auto json = LoadJson({.backend = "grpc", .num_prompts = 4}, Summarize(records, {}), records, true);
  for (const char* key : {"date",
                          "duration",
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
  EXPECT_EQ(json["interrupted"], false);
  EXPECT_EQ(json["error_counts"].dump(), R"([{"error":"gone","count":1}])");
}

TEST(LoadJson, HasNoLatenciesWhereNothingWasMeasured) {
  const std::vector<RequestRecord> failed = {EndedWith("gone")};
  EXPECT_TRUE(LoadJson({}, Summarize(failed, {}), failed, false)["p99_ttft_ms"].is_null());
  const std::vector<RequestRecord> single = {Ended(1)};
  const auto json = LoadJson({}, Summarize(single, {}), single, false);
  EXPECT_TRUE(json["median_tpot_ms"].is_null());
  EXPECT_EQ(json["median_ttft_ms"], 10);
}

TEST(LoadTable, NamesLoadServerUnitsAndPercentiles) {
  LoadSetting setting{.backend = "grpc", .target = "host:1", .model = "m", .num_prompts = 2, .max_concurrency = 3};
  setting.slo = {.ttft_ms = 50, .tpot_ms = 5};
  const std::string table = TableOf(setting, {Ended(3), Ended(3)});
  for (const char* text :
       {"m, grpc server at host:1, ", "closed loop, 3 in flight", "latency, ms", "P50", "P90", "P99", "max",
        "2 completed, 0 failed", "by the 0.0 % that met the SLO", "(TTFT <= 50 ms: 100.0 %, TPOT <= 5 ms: 0.0 %)"}) {
    EXPECT_THAT(table, HasSubstr(text));
  }
  EXPECT_THAT(table, Not(HasSubstr("errors")));
  EXPECT_THAT(table, Not(HasSubstr("INTERRUPTED")));
}

TEST(LoadTable, HasErrorsAndNoLatenciesWhenAllFailed) {
  const std::string table = TableOf({.num_prompts = 3}, {EndedWith("gone"), EndedWith("full"), EndedWith("gone")});
  EXPECT_THAT(table, HasSubstr("0 completed, 3 failed"));
  EXPECT_THAT(table, HasSubstr("     2 x gone\n       1 x full\n"));
  EXPECT_THAT(table, Not(HasSubstr("TTFT")));
  EXPECT_THAT(table, Not(HasSubstr("throughput")));
}

TEST(LoadTable, SaysThatItWasInterruptedAndWhatIsMissing) {
  RequestRecord cut = Ended(1);
  cut.status = absl::CancelledError("cut");
  cut.was_cut = true;
  const std::string table = TableOf({.num_prompts = 9, .is_interrupted = true}, {Ended(2), cut});
  EXPECT_THAT(table, HasSubstr("INTERRUPTED"));
  EXPECT_THAT(table, HasSubstr("1 completed, 0 failed, 1 cut, 7 not sent"));
  EXPECT_THAT(table, Not(HasSubstr("errors")));
}

TEST(CountErrors, GroupsByTextAndPutsTheMostFrequentFirst) {
  RequestRecord silent;
  silent.end = 1;
  const auto errors = CountErrors({EndedWith("a"), EndedWith("b\nb"), EndedWith("b\nb"), silent, Ended(1)});
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].text, "b b");
  EXPECT_EQ(errors[0].count, 2);
  EXPECT_EQ(errors[2].text, "the stream ended without output");
}

}  // namespace
}  // namespace baton::bench
