#include "bench/load/load_runner.h"

#include <algorithm>
#include <set>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "bench/load/load_report.h"
#include "bench/load/summary.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

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

  void CancelAll() override {}

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

// Answers the first requests at once and holds all others until they are cancelled.
class HoldingClient final : public LoadClient {
 public:
  explicit HoldingClient(int answered) : answered_(answered) {}

  absl::StatusOr<int> Generate(const LoadRequest& request, const std::function<void()>& on_output) override {
    absl::MutexLock lock(&mutex_);
    on_output();
    if (seen_++ < answered_) return 1;
    mutex_.Await(absl::Condition(&is_cancelled_));
    return absl::CancelledError("cancelled");
  }

  void CancelAll() override {
    absl::MutexLock lock(&mutex_);
    is_cancelled_ = true;
  }

  void AwaitRequests(int count) {
    absl::MutexLock lock(&mutex_);
    const auto have_come = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return seen_ >= count; };
    mutex_.Await(absl::Condition(&have_come));
  }

 private:
  const int answered_;
  absl::Mutex mutex_;
  int seen_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

// Runs the plan until `begun` of its requests have begun, and stops it then.
std::vector<RequestRecord> RunUntil(int begun, absl::Span<const PlannedRequest> plan, HoldingClient& client) {
  absl::Notification stop;
  LoadProgress progress;
  std::thread stopper([&] {
    client.AwaitRequests(begun);
    stop.Notify();
    client.CancelAll();
  });
  auto records =
      RunLoad(plan, {.concurrency = 3, .vocab_size = 1000, .stop = &stop}, client, MonotonicClock(), progress);
  stopper.join();
  return records;
}

TEST(RunLoad, AStoppedRunKeepsWhatEndedMarksWhatItCutAndLeavesOutTheRest) {
  HoldingClient client(/*answered=*/4);
  const auto records = RunUntil(7, Plan(50), client);
  ASSERT_EQ(records.size(), 7u);
  EXPECT_EQ(std::count_if(records.begin(), records.end(), [](const auto& record) { return record.was_cut; }), 3);
  const LoadSummary summary = Summarize(records, {});
  EXPECT_EQ(summary.completed, 4);
  EXPECT_EQ(summary.failed, 0);
  EXPECT_EQ(summary.cut, 3);
  EXPECT_TRUE(CountErrors(records).empty());
}

TEST(RunLoad, AStoppedOpenLoopDoesNotWaitForArrivals) {
  HoldingClient client(/*answered=*/1);
  const auto records = RunUntil(1, Plan(3, 3600 * kNsPerSecond), client);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_TRUE(records.front().status.ok());
}

}  // namespace
}  // namespace baton::bench
