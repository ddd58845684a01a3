#include "router/dashboard_json.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::router {
namespace {

using Json = nlohmann::json;

EndedRequest Sample() {
  return {.id = std::string(32, 'a'),
          .trace_id = std::string(32, 'b'),
          .end_unix_ms = 1'795'500'000'123,
          .outcome = RequestOutcome::kDeadline,
          .finish = "",
          .error = "the deadline passed",
          .prompt_tokens = 7,
          .output_tokens = 3,
          .cached_tokens = 4,
          .attempts = 2,
          .prefill_worker = "10.0.0.1:50061",
          .decode_worker = "10.0.0.2:50061",
          .ttft_ms = 12.3456789,
          .total_ms = 40,
          .phases_ms = {1, 2, 9.3456, 0.5, 27, 0.1544},
          .transfer_bytes = 36'864};
}

TEST(DashboardJsonTest, ARequestHasTheFieldsOfTheContract) {
  EXPECT_EQ(Json::parse(RequestJson(Sample())), Json::parse(R"({
    "id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "trace_id": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
    "end_ms": 1795500000123, "outcome": "deadline", "finish": "", "error": "the deadline passed",
    "prompt_tokens": 7, "output_tokens": 3, "cached_tokens": 4, "attempts": 2,
    "prefill_worker": "10.0.0.1:50061", "decode_worker": "10.0.0.2:50061",
    "ttft_ms": 12.346, "itl_ms": null, "total_ms": 40.0,
    "phases_ms": [1.0, 2.0, 9.346, 0.5, 27.0, 0.154], "transfer_bytes": 36864})"));
}

TEST(DashboardJsonTest, EveryOutcomeHasItsName) {
  const std::pair<RequestOutcome, const char*> names[] = {{RequestOutcome::kOk, "ok"},
                                                          {RequestOutcome::kCancelled, "cancelled"},
                                                          {RequestOutcome::kDeadline, "deadline"},
                                                          {RequestOutcome::kRefused, "refused"},
                                                          {RequestOutcome::kFailed, "failed"},
                                                          {RequestOutcome::kUnavailable, "unavailable"}};
  for (const auto& [outcome, name] : names) {
    EXPECT_EQ(Json::parse(RequestJson({.outcome = outcome}))["outcome"], name);
  }
}

TEST(DashboardJsonTest, TextsOfOthersAreCutAndNeverBreakTheEvent) {
  EndedRequest request = Sample();
  request.error = "a\n\nevent: snapshot\ndata: {}\n\n\x01\xff\xc3\"\\</script>";
  request.finish = std::string(199, 'x') + "é";
  request.decode_worker = std::string(5'000, 'y');
  const std::string text = RequestJson(request);
  EXPECT_EQ(text.find('\n'), std::string::npos) << "a line would end the event";
  const Json json = Json::parse(text);
  EXPECT_EQ(json["error"], "a\n\nevent: snapshot\ndata: {}\n\n\x01\xEF\xBF\xBD\xEF\xBF\xBD\"\\</script>");
  EXPECT_EQ(json["finish"], std::string(199, 'x')) << "no half of a character";
  EXPECT_EQ(json["decode_worker"].get<std::string>().size(), kMaxDashboardTextBytes);
}

TEST(DashboardJsonTest, CutTextKeepsWholeCharacters) {
  EXPECT_EQ(CutText("short"), "short");
  const std::string exact(kMaxDashboardTextBytes, 'x');
  EXPECT_EQ(CutText(exact), exact);
  EXPECT_EQ(CutText(exact + "x"), exact);
  for (size_t before = kMaxDashboardTextBytes - 4; before <= kMaxDashboardTextBytes; ++before) {
    const std::string text = std::string(before, 'x') + "\xF0\x9F\x98\x80 and more than fits";
    const std::string_view cut = CutText(text);
    EXPECT_EQ(cut.size(), before == kMaxDashboardTextBytes - 4 ? kMaxDashboardTextBytes : before) << before;
  }
}

TEST(DashboardJsonTest, NumbersThatJsonDoesNotHaveAreZero) {
  EndedRequest request = Sample();
  request.total_ms = std::numeric_limits<double>::infinity();
  request.phases_ms[0] = std::numeric_limits<double>::quiet_NaN();
  const Json json = Json::parse(RequestJson(request));
  EXPECT_EQ(json["total_ms"], 0);
  EXPECT_EQ(json["phases_ms"][0], 0);
}

TEST(DashboardJsonTest, ASnapshotHasTheFieldsOfTheContract) {
  const SnapshotFacts facts = {
      .view = {.unix_ms = 1'795'500'000'000,
               .serving = true,
               .running = 5,
               .waiting = 2,
               .prompt_tokens = 900,
               .output_tokens = 300,
               .workers = {{.id = std::string(32, 'c'),
                            .pid = 42,
                            .role = "decode",
                            .address = "10.0.0.2:50061",
                            .admin = "10.0.0.2:9464",
                            .state = "draining",
                            .group = "default",
                            .running = 5,
                            .used_blocks = 10,
                            .free_blocks = 20,
                            .cached_blocks = 30,
                            .total_blocks = 60,
                            .pending_prompt_tokens = 8,
                            .step_age_ms = 1.5}},
               .transfers =
                   {{.source = "10.0.0.1:50061", .target = "10.0.0.2:50061", .bytes = 77, .seconds = 0.25, .reads = 3}},
               .cost = {.rss_bytes = 1 << 20, .viewers = 2}},
      .window = {.window_s = 60,
                 .requests = 9,
                 .failed = 1,
                 .ttft_ms = {.p50 = 12.5, .p99 = 99},
                 .e2e_ms = {.p50 = 100, .p99 = 200},
                 .goodput = 0.875},
      .objective = {.ttft_ms = 500, .itl_ms = 100},
      .rates = {.cpu_cores = 0.25,
                .telemetry_cpu_cores = 0.0001,
                .event_bytes_per_s = 4096,
                .prompt_tokens_per_s = 15,
                .output_tokens_per_s = 5,
                .steps_per_s = {60.0}},
      .totals = {.requests = 10, .ok = 8, .failed = 1},
      .phases = {.ended = 2, .ms = {1, 2, 3, 4, 5, 6}},
      .uptime_s = 61,
      .version = "0.1.0",
      .model = "m"};
  Json expected = Json::parse(R"({
    "t_ms": 1795500000000, "uptime_s": 61.0, "version": "0.1.0", "model": "m", "serving": true, "waits_for": "",
    "totals": {"requests": 10, "ok": 8, "failed": 1, "prompt_tokens": 900, "output_tokens": 300},
    "headline": {"window_s": 60.0, "requests": 9, "failed": 1, "ttft_ms": {"p50": 12.5, "p99": 99.0},
      "itl_ms": {"p50": null, "p99": null}, "e2e_ms": {"p50": 100.0, "p99": 200.0}, "goodput": 0.875,
      "ttft_target_ms": 500.0, "itl_target_ms": 100.0, "output_tokens_per_s": 5.0, "prompt_tokens_per_s": 15.0,
      "running": 5, "waiting": 2},
    "phases_ms": {"queue": 1.0, "admission": 2.0, "prefill": 3.0, "transfer": 4.0, "decode": 5.0, "network": 6.0},
    "ended": 2,
    "workers": [{"id": "cccccccccccccccccccccccccccccccc", "pid": 42, "role": "decode", "address": "10.0.0.2:50061",
      "admin": "10.0.0.2:9464", "state": "draining", "group": "default", "running": 5, "used_blocks": 10,
      "free_blocks": 20, "cached_blocks": 30, "total_blocks": 60, "pending_prompt_tokens": 8, "step_age_ms": 1.5,
      "steps_per_s": 60.0}],
    "transfers": [{"source": "10.0.0.1:50061", "target": "10.0.0.2:50061", "bytes": 77, "seconds": 0.25, "reads": 3}],
    "cost": {"cpu_cores": 0.25, "telemetry_cpu_cores": 0.0001, "rss_bytes": 1048576, "viewers": 2,
      "bytes_per_s": 4096.0}})");
  EXPECT_EQ(Json::parse(SnapshotJson(facts, /*whole=*/true)), expected);
  expected.erase("workers");
  expected.erase("transfers");
  EXPECT_EQ(Json::parse(SnapshotJson(facts, /*whole=*/false)), expected);
}

}  // namespace
}  // namespace baton::router
