#include "router/dashboard_feed.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "router/dashboard.h"

namespace baton::router {
namespace {

using Json = nlohmann::json;

constexpr Objective kObjective = {.ttft_ms = 100, .itl_ms = 20};

EndedRequest Ended(int64_t number, RequestOutcome outcome = RequestOutcome::kOk) {
  return {.id = absl::StrCat(absl::Hex(number, absl::kZeroPad16), std::string(16, '0')),
          .trace_id = absl::StrCat(std::string(16, 'f'), absl::Hex(number, absl::kZeroPad16)),
          .end_unix_ms = 1'795'500'000'000 + number,
          .outcome = outcome,
          .finish = "stop",
          .prompt_tokens = 512,
          .output_tokens = 128,
          .attempts = 1,
          .prefill_worker = "baton-prefill-0.baton-prefill.serving.svc:50061",
          .decode_worker = "baton-decode-0.baton-decode.serving.svc:50061",
          .ttft_ms = 43.127,
          .itl_ms = 17.861,
          .total_ms = 2311.482,
          .phases_ms = {1.25, 0.5, 41.377, 2.221, 2265.721, 0.413},
          .transfer_bytes = 18'874'368};
}

ClusterView View(int viewers = 1) { return {.serving = true, .cost = {.viewers = viewers}}; }

DashboardWorker Worker(int number) {
  return {.id = absl::StrCat(absl::Hex(number, absl::kZeroPad16), std::string(16, 'e')),
          .pid = 4'000 + number,
          .role = "decode",
          .address = absl::StrCat("baton-decode-", number, ".baton-decode.serving.svc:50061"),
          .admin = absl::StrCat("baton-decode-", number, ".baton-decode.serving.svc:9464"),
          .state = "serving",
          .group = "default",
          .running = 12,
          .used_blocks = 1'000,
          .free_blocks = 2'000,
          .cached_blocks = 1'096,
          .total_blocks = 4'096,
          .step_age_ms = 3.251,
          .steps = 1'000};
}

// The data of an event that must have this name.
Json DataOf(const std::string& event, const std::string& name) {
  const std::string prefix = absl::StrCat("event: ", name, "\ndata: ");
  EXPECT_TRUE(absl::StartsWith(event, prefix) && absl::EndsWith(event, "\n\n")) << event.substr(0, 100);
  EXPECT_EQ(std::count(event.begin(), event.end(), '\n'), 3) << "one event of one line";
  return Json::parse(event.substr(prefix.size()));
}

std::vector<std::string> IdsOf(const Json& requests) {
  std::vector<std::string> ids;
  for (const Json& request : requests) ids.push_back(request["id"].get<std::string>());
  return ids;
}

class DashboardFeedTest : public testing::Test {
 protected:
  Json History() { return DataOf(feed_.Welcome().second.Event(), "history"); }

  ManualClock clock_;
  DashboardFeed feed_{{.objective = kObjective, .version = "1", .model = "m"}, clock_};
};

TEST_F(DashboardFeedTest, ANewClusterHasAnEmptyHistory) {
  EXPECT_EQ(History(), Json::parse(R"({"snapshots": [], "requests": []})"));
  EXPECT_EQ(feed_.TakeRequests(), "");
  EXPECT_EQ(feed_.next_requests_at(), kNever);
}

TEST_F(DashboardFeedTest, AViewerGetsEachRequestOnceInHistoryOrAfterIt) {
  feed_.OnRequestEnded(Ended(1));
  auto [nobody, first] = feed_.Welcome();
  EXPECT_EQ(nobody, "");
  EXPECT_EQ(IdsOf(DataOf(first.Event(), "history")["requests"]), std::vector{Ended(1).id});
  feed_.OnRequestEnded(Ended(2));
  // The second viewer has it by its history, and the first one hears of it before.
  auto [for_first, second] = feed_.Welcome();
  EXPECT_EQ(IdsOf(DataOf(for_first, "requests")), std::vector{Ended(2).id});
  EXPECT_EQ(IdsOf(DataOf(second.Event(), "history")["requests"]), (std::vector{Ended(1).id, Ended(2).id}));
  clock_.AdvanceMs(kDashboardRequestsIntervalMs);
  EXPECT_EQ(feed_.TakeRequests(), "");
  feed_.OnRequestEnded(Ended(3));
  EXPECT_EQ(IdsOf(DataOf(feed_.TakeRequests(), "requests")), std::vector{Ended(3).id});
  // A history that was taken does not change any more.
  EXPECT_EQ(IdsOf(DataOf(second.Event(), "history")["requests"]).size(), 2u);
}

TEST_F(DashboardFeedTest, RequestsComeAtMostTenTimesASecond) {
  feed_.Welcome();
  int events = 0, requests = 0;
  for (int ms = 0; ms < 1'000; ++ms) {
    feed_.OnRequestEnded(Ended(ms));
    if (const std::string event = feed_.TakeRequests(); !event.empty()) {
      ++events;
      requests += static_cast<int>(DataOf(event, "requests").size());
      EXPECT_EQ(feed_.next_requests_at(), kNever);
    } else {
      EXPECT_GT(feed_.next_requests_at(), clock_.Now());
      EXPECT_LE(feed_.next_requests_at(), After(clock_.Now(), kDashboardRequestsIntervalMs));
    }
    clock_.AdvanceMs(1);
  }
  EXPECT_EQ(events, 10);
  EXPECT_EQ(requests, 901) << "the first one at once, and then what came in each interval";
}

TEST_F(DashboardFeedTest, WhileNobodyLooksThereIsNothingToSend) {
  feed_.OnRequestEnded(Ended(1));
  EXPECT_EQ(feed_.Snapshot(View(0)), "");
  EXPECT_EQ(feed_.TakeRequests(), "");
  feed_.Welcome();
  feed_.OnRequestEnded(Ended(2));
  EXPECT_NE(feed_.next_requests_at(), kNever);
  // The viewer has left.
  EXPECT_EQ(feed_.Snapshot(View(0)), "");
  clock_.AdvanceMs(1'000);
  EXPECT_EQ(feed_.TakeRequests(), "");
  EXPECT_EQ(History()["requests"].size(), 2u) << "the next viewer gets all the same";
}

TEST_F(DashboardFeedTest, WhatWaitsIsBoundedAndAViewerThatMissesSomethingGetsTheHistory) {
  feed_.Welcome();
  const size_t enough = 2 * kMaxDashboardPendingBytes / RequestJson(Ended(1)).size();
  for (size_t i = 0; i < enough; ++i) feed_.OnRequestEnded(Ended(static_cast<int64_t>(i)));
  EXPECT_EQ(DataOf(feed_.TakeRequests(), "history")["requests"].size(), enough);
  clock_.AdvanceMs(kDashboardRequestsIntervalMs);
  feed_.OnRequestEnded(Ended(7));
  EXPECT_EQ(DataOf(feed_.TakeRequests(), "requests").size(), 1u) << "and then goes on as before";
}

TEST_F(DashboardFeedTest, TheHistoryHasTheNewestRequestsAndIsBounded) {
  for (int64_t i = 0; i < 12'000; ++i) feed_.OnRequestEnded(Ended(i));
  const std::vector<std::string> ids = IdsOf(History()["requests"]);
  EXPECT_LE(ids.size(), kMaxDashboardRequests);
  EXPECT_GT(ids.size(), kMaxDashboardRequests - 300);
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], Ended(static_cast<int64_t>(12'000 - ids.size() + i)).id);
}

TEST_F(DashboardFeedTest, TheHistoryTakesHardlyMoreMemoryThanItsTextHas) {
  // A text doubles its room to grow, so one shorter request before the others leaves it with twice what it needs.
  EndedRequest shorter = Ended(0);
  shorter.prefill_worker.clear();
  for (int64_t i = 0; i < 12'000; ++i) {
    feed_.OnRequestEnded(i % 250 == 0 ? shorter : Ended(i));
    if (i % 10 == 0) feed_.Snapshot(View(0));
  }
  const size_t text_bytes = feed_.Welcome().second.Event().size();
  EXPECT_GT(feed_.HistoryRoomBytes(), text_bytes * 9 / 10);
  EXPECT_LT(feed_.HistoryRoomBytes(), text_bytes * 11 / 10);
}

TEST_F(DashboardFeedTest, TheLongestHistoryFitsWhatAnEventStreamHolds) {
  const std::string longest(5'000, 'x');
  ClusterView view = View(0);
  view.waits_for = longest;
  for (int i = 0; i < kMaxWorkers; ++i) {
    DashboardWorker worker = Worker(i);
    worker.address = worker.admin = worker.group = longest;
    view.workers.push_back(worker);
  }
  for (size_t i = 0; i < kMaxDashboardPairs; ++i)
    view.transfers.push_back({.source = longest, .target = longest, .bytes = INT64_MAX});
  for (size_t i = 0; i < 2 * kMaxDashboardSnapshots; ++i) feed_.Snapshot(view);
  EndedRequest request = Ended(1);
  request.error = request.prefill_worker = request.decode_worker = longest;
  for (size_t i = 0; i <= kMaxDashboardRequests; ++i) feed_.OnRequestEnded(request);
  const std::string event = feed_.Welcome().second.Event();
  std::printf("the longest history has %zu bytes\n", event.size());
  EXPECT_LT(event.size(), size_t{8} << 20);
  EXPECT_EQ(DataOf(event, "history")["snapshots"].size(), kMaxDashboardSnapshots);
}

TEST_F(DashboardFeedTest, OnlyTheLastSnapshotOfAHistoryHasWorkersAndTransfers) {
  ClusterView view = View(0);
  view.workers = {Worker(1), Worker(2)};
  view.transfers = {{.source = "a", .target = "b", .bytes = 9}};
  for (int i = 0; i < 3; ++i) {
    view.unix_ms = i;
    feed_.Snapshot(view);
    clock_.AdvanceMs(1'000);
  }
  const Json snapshots = History()["snapshots"];
  ASSERT_EQ(snapshots.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(snapshots[i]["t_ms"], i);
    EXPECT_EQ(snapshots[i].contains("workers"), i == 2);
    EXPECT_EQ(snapshots[i].contains("transfers"), i == 2);
  }
  EXPECT_EQ(snapshots[2]["workers"].size(), 2u);
}

TEST_F(DashboardFeedTest, PhasesAreMeansOfWhatEndedWellSinceTheLastSnapshot) {
  EndedRequest slow = Ended(1), fast = Ended(2), failed = Ended(3, RequestOutcome::kFailed);
  slow.phases_ms = {10, 0, 0, 0, 100, 0};
  fast.phases_ms = {2, 0, 0, 0, 50, 1};
  failed.phases_ms = {9'000, 0, 0, 0, 0, 0};
  for (const EndedRequest& request : {slow, fast, failed}) feed_.OnRequestEnded(request);
  Json snapshot = DataOf(feed_.Snapshot(View()), "snapshot");
  EXPECT_EQ(snapshot["ended"], 2);
  EXPECT_EQ(snapshot["phases_ms"]["queue"], 6);
  EXPECT_EQ(snapshot["phases_ms"]["decode"], 75);
  EXPECT_EQ(snapshot["phases_ms"]["network"], 0.5);
  EXPECT_EQ(snapshot["totals"]["requests"], 3);
  EXPECT_EQ(snapshot["totals"]["ok"], 2);
  EXPECT_EQ(snapshot["totals"]["failed"], 1);
  snapshot = DataOf(feed_.Snapshot(View()), "snapshot");
  EXPECT_EQ(snapshot["ended"], 0);
  EXPECT_TRUE(snapshot["phases_ms"].is_null());
  EXPECT_EQ(snapshot["totals"]["requests"], 3) << "totals stay";
}

TEST_F(DashboardFeedTest, RatesAreDifferencesOfCountersOverTime) {
  ClusterView view = View();
  view.workers = {Worker(1), Worker(2)};
  view.workers[1].steps.reset();
  Json snapshot = DataOf(feed_.Snapshot(view), "snapshot");
  EXPECT_TRUE(snapshot["workers"][0]["steps_per_s"].is_null()) << "one number has no rate";
  EXPECT_EQ(snapshot["headline"]["output_tokens_per_s"], 0);
  clock_.AdvanceMs(2'000);
  view.workers[0].steps = 1'090;
  view.prompt_tokens = 4'000;
  view.output_tokens = 500;
  view.cost.cpu_ns = kNsPerSecond;
  view.cost.telemetry_cpu_ns = 2 * kNsPerMs;
  view.cost.event_bytes = 8'000;
  snapshot = DataOf(feed_.Snapshot(view), "snapshot");
  EXPECT_EQ(snapshot["workers"][0]["steps_per_s"], 45);
  EXPECT_TRUE(snapshot["workers"][1]["steps_per_s"].is_null());
  EXPECT_EQ(snapshot["headline"]["prompt_tokens_per_s"], 2'000);
  EXPECT_EQ(snapshot["headline"]["output_tokens_per_s"], 250);
  EXPECT_EQ(snapshot["cost"]["cpu_cores"], 0.5);
  EXPECT_EQ(snapshot["cost"]["telemetry_cpu_cores"], 0.001);
  EXPECT_EQ(snapshot["cost"]["bytes_per_s"], 4'000);
  // A worker that was started again counts from zero; nothing becomes negative.
  clock_.AdvanceMs(1'000);
  view.workers[0].steps = 3;
  EXPECT_EQ(DataOf(feed_.Snapshot(view), "snapshot")["workers"][0]["steps_per_s"], 0);
}

TEST_F(DashboardFeedTest, TokensASecondAreThoseOfTheLastMinute) {
  ClusterView view = View();
  Json snapshot;
  // 100 a second for two minutes, and then none.
  for (int second = 0; second <= 150; ++second) {
    snapshot = DataOf(feed_.Snapshot(view), "snapshot");
    if (second == 120) {
      EXPECT_NEAR(snapshot["headline"]["output_tokens_per_s"].get<double>(), 100, 0.01);
    }
    if (second < 120) view.output_tokens += 100;
    clock_.AdvanceMs(1'000);
  }
  EXPECT_NEAR(snapshot["headline"]["output_tokens_per_s"].get<double>(), 50, 2);
}

TEST_F(DashboardFeedTest, WhatItCosts) {
  const Clock& real = MonotonicClock();
  const auto report = [&real](const char* what, TimeNs begin, int times, size_t bytes) {
    std::printf("%s: %.1f us, %zu bytes\n", what, static_cast<double>(real.Now() - begin) / 1e3 / times, bytes);
  };
  feed_.Welcome();
  const EndedRequest request = Ended(1);
  TimeNs begin = real.Now();
  for (int i = 0; i < 20'000; ++i) {
    feed_.OnRequestEnded(request);
    if (i % 1'000 != 0) continue;
    clock_.AdvanceMs(kDashboardRequestsIntervalMs);
    feed_.TakeRequests();
  }
  report("a request that somebody sees", begin, 20'000, RequestJson(request).size());
  ClusterView view = View();
  for (int i = 0; i < 64; ++i) {
    view.workers.push_back(Worker(i));
    view.transfers.push_back(
        {.source = Worker(i).address, .target = Worker(63 - i).address, .bytes = 9, .seconds = 0.5, .reads = 3});
  }
  size_t bytes = 0;
  for (const int viewers : {0, 1}) {
    view.cost.viewers = viewers;
    begin = real.Now();
    for (int i = 0; i < 100; ++i) {
      clock_.AdvanceMs(10);
      bytes = feed_.Snapshot(view).size();
    }
    report(viewers == 0 ? "a snapshot of 64 workers that nobody sees" : "a snapshot of 64 workers", begin, 100, bytes);
  }
  begin = real.Now();
  const DashboardHistory history = feed_.Welcome().second;
  report("taking a history of 10,000 requests, on the router's loop", begin, 1, 0);
  begin = real.Now();
  const std::string event = history.Event();
  report("its text, on any thread", begin, 1, event.size());
  EXPECT_GT(Json::parse(event.substr(event.find('{')))["requests"].size(), 9'700u);
  EXPECT_GT(bytes, 10'000u);
}

}  // namespace
}  // namespace baton::router
