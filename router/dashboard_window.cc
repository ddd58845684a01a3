#include "router/dashboard_window.h"

#include <algorithm>
#include <cmath>

namespace baton::router {
namespace {

// An objective of 0 is none.
bool Keeps(double ms, double objective_ms) { return objective_ms == 0 || ms <= objective_ms; }

float TakeRank(std::vector<float>& values, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

// Reorders the values.
Quantiles QuantilesOf(std::vector<float>& values) {
  if (values.empty()) return {};
  return {.p50 = TakeRank(values, 0.5), .p99 = TakeRank(values, 0.99)};
}

}  // namespace

bool DashboardWindow::IsWithinObjective(const EndedRequest& request) const {
  // A request of one token has no time between tokens that could be too long.
  return request.outcome == RequestOutcome::kOk && request.ttft_ms.has_value() &&
         Keeps(*request.ttft_ms, objective_.ttft_ms) && Keeps(request.itl_ms.value_or(0), objective_.itl_ms);
}

void DashboardWindow::Add(TimeNs now, const EndedRequest& request) {
  const auto narrow = [](const std::optional<double>& value) {
    return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
  };
  if (samples_.size() == kMaxDashboardWindow) {
    cut_at_ = samples_.front().at;
    samples_.pop_front();
  }
  samples_.push_back({.at = now,
                      .outcome = request.outcome,
                      .within_objective = IsWithinObjective(request),
                      .ttft_ms = narrow(request.ttft_ms),
                      .itl_ms = narrow(request.itl_ms),
                      .e2e_ms = static_cast<float>(request.total_ms)});
}

WindowSummary DashboardWindow::Summarize(TimeNs now) {
  const TimeNs begin = now - kDashboardWindowMs * kNsPerMs;
  while (!samples_.empty() && samples_.front().at <= begin) samples_.pop_front();
  WindowSummary summary = {.window_s = static_cast<double>(now - std::max(begin, cut_at_)) / kNsPerSecond,
                           .requests = static_cast<int64_t>(samples_.size())};
  int64_t counted = 0, within = 0;
  for (const Sample& sample : samples_) {
    if (sample.outcome == RequestOutcome::kCancelled) continue;
    ++counted;
    within += sample.within_objective ? 1 : 0;
    summary.failed += sample.outcome == RequestOutcome::kOk ? 0 : 1;
  }
  if (counted > 0) summary.goodput = static_cast<double>(within) / static_cast<double>(counted);
  const auto quantiles = [this](auto value_of) {
    scratch_.clear();
    for (const Sample& sample : samples_) {
      if (sample.outcome != RequestOutcome::kOk) continue;
      if (const std::optional<float> value = value_of(sample)) scratch_.push_back(*value);
    }
    return QuantilesOf(scratch_);
  };
  summary.ttft_ms = quantiles([](const Sample& sample) { return sample.ttft_ms; });
  summary.itl_ms = quantiles([](const Sample& sample) { return sample.itl_ms; });
  summary.e2e_ms = quantiles([](const Sample& sample) { return std::optional<float>(sample.e2e_ms); });
  return summary;
}

}  // namespace baton::router
