// The requests that ended in the last minute, for the large numbers of the dashboard.
#ifndef BATON_ROUTER_DASHBOARD_WINDOW_H_
#define BATON_ROUTER_DASHBOARD_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "router/dashboard_facts.h"

namespace baton::router {

inline constexpr int64_t kDashboardWindowMs = 60'000;
// At more than 273 requests a second the window becomes shorter than a minute.
inline constexpr size_t kMaxDashboardWindow = 16'384;

struct Objective {
  double ttft_ms = 0;
  double itl_ms = 0;
};

// The smallest value that at least half, or 99 of 100, of the values do not exceed; none of no values.
struct Quantiles {
  std::optional<double> p50;
  std::optional<double> p99;
};

struct WindowSummary {
  double window_s = 0;
  int64_t requests = 0;
  // Ended neither well nor by their clients.
  int64_t failed = 0;
  // Times of the requests that ended well.
  Quantiles ttft_ms;
  Quantiles itl_ms;
  Quantiles e2e_ms;
  // The share that ended well within the objective, of all but those that their clients ended; none of none.
  std::optional<double> goodput;
};

// Used by one thread.
class DashboardWindow {
 public:
  explicit DashboardWindow(const Objective& objective) : objective_(objective) {}

  void Add(TimeNs now, const EndedRequest& request);
  // Exact. Forgets what is older than the window.
  WindowSummary Summarize(TimeNs now);

  const Objective& objective() const { return objective_; }
  size_t size() const { return samples_.size(); }

 private:
  struct Sample {
    TimeNs at;
    RequestOutcome outcome;
    bool within_objective;
    std::optional<float> ttft_ms;
    std::optional<float> itl_ms;
    float e2e_ms;
  };

  bool IsWithinObjective(const EndedRequest& request) const;

  const Objective objective_;
  // Oldest first.
  std::deque<Sample> samples_;
  // When the newest of the samples ended that had to make room before their time.
  TimeNs cut_at_ = std::numeric_limits<TimeNs>::min();
  // Reused, so that a summary allocates nothing.
  std::vector<float> scratch_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DASHBOARD_WINDOW_H_
