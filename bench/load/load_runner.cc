#include "bench/load/load_runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "absl/time/time.h"
#include "common/check.h"

namespace baton::bench {
namespace {

class Runner {
 public:
  Runner(absl::Span<const PlannedRequest> plan, const LoadRunOptions& options, LoadClient& client, const Clock& clock,
         LoadProgress& progress)
      : plan_(plan),
        options_(options),
        client_(client),
        clock_(clock),
        progress_(progress),
        is_open_loop_(!plan.empty() && plan.back().arrival_ns > 0),
        records_(plan.size()) {}

  std::vector<RequestRecord> Run() {
    const int count = std::min(options_.concurrency, static_cast<int>(plan_.size()));
    begin_ = clock_.Now();
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (int i = 0; i < count; ++i) threads.emplace_back([this] { Work(); });
    for (std::thread& thread : threads) thread.join();
    // A request that was sent has an end.
    records_.erase(std::remove_if(records_.begin(), records_.end(), [](const auto& record) { return record.end == 0; }),
                   records_.end());
    return std::move(records_);
  }

 private:
  // Takes the next request of the plan until none is left. Requests are therefore sent in order, and no more are in
  // flight than there are threads.
  void Work() {
    while (!is_stopped()) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= plan_.size()) return;
      Send(index);
    }
  }

  void Send(size_t index) {
    const PlannedRequest& planned = plan_[index];
    LoadRequest request;
    request.prompt = PromptIds(options_.seed, options_.first_index + static_cast<int>(index), planned.prompt_tokens,
                               options_.vocab_size);
    request.output_tokens = planned.output_tokens;
    RequestRecord& record = records_[index];
    record.prompt_tokens = planned.prompt_tokens;
    record.outputs.reserve(static_cast<size_t>(planned.output_tokens));
    const std::optional<TimeNs> start = AwaitArrival(planned);
    if (!start.has_value()) return;
    record.start = *start;
    const absl::StatusOr<int> made = client_.Generate(request, [&] {
      record.outputs.push_back(clock_.Now());
      progress_.outputs.fetch_add(1, std::memory_order_relaxed);
    });
    record.end = clock_.Now();
    record.status = made.status();
    record.output_tokens = made.value_or(0);
    record.was_cut = !made.ok() && is_stopped();
    if (!made.ok()) progress_.failed.fetch_add(1, std::memory_order_relaxed);
    progress_.ended.fetch_add(1, std::memory_order_relaxed);
  }

  // When the request's latencies begin; none when the run is stopped before.
  std::optional<TimeNs> AwaitArrival(const PlannedRequest& planned) {
    if (!is_open_loop_) return clock_.Now();
    const TimeNs due = begin_ + planned.arrival_ns;
    for (TimeNs now = clock_.Now(); now < due; now = clock_.Now()) {
      if (options_.stop == nullptr) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(due - now));
      } else if (options_.stop->WaitForNotificationWithTimeout(absl::Nanoseconds(due - now))) {
        return std::nullopt;
      }
    }
    return due;
  }

  bool is_stopped() const { return options_.stop != nullptr && options_.stop->HasBeenNotified(); }

  const absl::Span<const PlannedRequest> plan_;
  const LoadRunOptions& options_;
  LoadClient& client_;
  const Clock& clock_;
  LoadProgress& progress_;
  const bool is_open_loop_;
  TimeNs begin_ = 0;
  std::atomic<size_t> next_{0};
  // Each entry is written by the one thread that took its index.
  std::vector<RequestRecord> records_;
};

}  // namespace

std::vector<RequestRecord> RunLoad(absl::Span<const PlannedRequest> plan, const LoadRunOptions& options,
                                   LoadClient& client, const Clock& clock, LoadProgress& progress) {
  BATON_CHECK(options.concurrency >= 1 && options.concurrency <= kMaxConcurrency) << options.concurrency;
  return Runner(plan, options, client, clock, progress).Run();
}

}  // namespace baton::bench
