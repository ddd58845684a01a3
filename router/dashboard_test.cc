#include "router/dashboard.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::router {
namespace {

using nlohmann::json;
using testing::ElementsAre;

class KeptStream final : public telemetry::EventStream {
 public:
  bool Write(std::string text) override {
    if (!closed_) text_ += text;
    return !closed_;
  }
  bool closed() const override { return closed_; }
  void Close() override { closed_ = true; }

  // The names of the events so far, and the data of the last one.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (size_t at = text_.find("event: "); at != std::string::npos; at = text_.find("event: ", at + 1)) {
      const size_t begin = at + 7;
      names.push_back(text_.substr(begin, text_.find('\n', begin) - begin));
    }
    return names;
  }
  json last() const {
    const size_t begin = text_.rfind("data: ") + 6;
    return json::parse(text_.substr(begin, text_.find('\n', begin) - begin));
  }

 private:
  std::string text_;
  bool closed_ = false;
};

class DashboardTest : public testing::Test {
 protected:
  void NextSecond() {
    clock_.AdvanceMs(kSnapshotIntervalMs);
    dashboard_.OnView(view_);
  }
  static WorkerView Member(const char* address) {
    WorkerView worker;
    worker.address = address;
    return worker;
  }
  static RequestRecord Served() {
    RequestRecord record;
    record.id = {.high = 1, .low = 2};
    record.prompt_tokens = 5;
    record.output_tokens = 2;
    record.ttft_ns = 3 * kNsPerMs;
    record.mean_itl_ns = kNsPerMs;
    record.phases = {.queue_ns = kNsPerMs,
                     .admission_ns = 0,
                     .prefill_ns = 2 * kNsPerMs,
                     .transfer_ns = 0,
                     .decode_ns = 4 * kNsPerMs};
    record.network_ns = kNsPerMs;
    record.total_ns = 8 * kNsPerMs;
    JobResult job;
    job.attempts = 1;
    job.prefill_worker = "p:1";
    job.decode_worker = "d:1";
    job.decode.transfer_bytes = 4096;
    job.decode.read_ns = kNsPerSecond;
    record.job = std::make_shared<const JobResult>(job);
    return record;
  }

  ManualClock clock_;
  RouterView view_;
  Dashboard dashboard_{{.objective = {.ttft_ms = 100, .itl_ms = 10}, .version = "1", .model = "m"}, clock_, [] {
                         return CostView{.cpu_ns = 7};
                       }};
  const std::shared_ptr<KeptStream> viewer_ = std::make_shared<KeptStream>();
};

TEST_F(DashboardTest, AViewerGetsTheHistoryAndThenWhatHappens) {
  dashboard_.OnRequestEnded(Served());
  NextSecond();
  dashboard_.AddViewer(viewer_);
  EXPECT_THAT(viewer_->names(), ElementsAre("history"));
  EXPECT_EQ(viewer_->last()["requests"].size(), 1u);
  NextSecond();
  dashboard_.OnRequestEnded(Served());
  NextSecond();
  EXPECT_THAT(viewer_->names(), ElementsAre("history", "snapshot", "requests", "snapshot"));
}

TEST_F(DashboardTest, ASnapshotSaysWhatTheRouterAndItsRequestsAre) {
  view_.serving = true;
  view_.running_jobs = 3;
  view_.workers.push_back({.incarnation = {.high = 9, .low = 9},
                           .role = WorkerRole::kDecode,
                           .address = "d:1",
                           .admin = "",
                           .group = "A",
                           .pid = 12,
                           .total_blocks = 10,
                           .load = {.used_blocks = 4}});
  view_.workers.push_back(Member("p:1"));
  dashboard_.AddViewer(viewer_);
  dashboard_.OnFirstToken(0);
  dashboard_.OnNextToken(0);
  dashboard_.OnRequestEnded(Served());
  NextSecond();
  const json snapshot = viewer_->last();
  EXPECT_EQ(snapshot["serving"], true);
  EXPECT_EQ(snapshot["headline"]["running"], 3);
  EXPECT_EQ(snapshot["totals"]["ok"], 1);
  EXPECT_EQ(snapshot["totals"]["prompt_tokens"], 5);
  EXPECT_EQ(snapshot["totals"]["output_tokens"], 2);
  EXPECT_EQ(snapshot["workers"][0]["role"], "decode");
  EXPECT_EQ(snapshot["workers"][0]["used_blocks"], 4);
  EXPECT_EQ(snapshot["transfers"][0]["source"], "p:1");
  EXPECT_EQ(snapshot["transfers"][0]["bytes"], 4096);
  EXPECT_EQ(snapshot["phases_ms"]["prefill"], 2.0);
}

TEST_F(DashboardTest, PairsOfWorkersThatHaveLeftMakeRoom) {
  view_.workers = {Member("p:1"), Member("d:1")};
  dashboard_.AddViewer(viewer_);
  dashboard_.OnRequestEnded(Served());
  NextSecond();
  EXPECT_EQ(viewer_->last()["transfers"].size(), 1u);
  view_.workers = {Member("p:2"), Member("d:1")};
  NextSecond();
  EXPECT_EQ(viewer_->last()["transfers"].size(), 0u);
}

TEST_F(DashboardTest, AViewerThatHasLeftIsForgotten) {
  dashboard_.AddViewer(viewer_);
  EXPECT_EQ(dashboard_.viewers(), 1);
  viewer_->Close();
  NextSecond();
  EXPECT_EQ(dashboard_.viewers(), 0);
}

}  // namespace
}  // namespace baton::router
