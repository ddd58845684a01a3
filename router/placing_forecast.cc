// What the queue says of jobs that it does not have yet.
#include <algorithm>
#include <optional>
#include <vector>

#include "router/placing_queue.h"

namespace baton::router {

std::optional<int64_t> PlacingQueue::LeastUncomputedTokens() const {
  std::optional<int64_t> least;
  for (const auto& [id, worker] : registry_.workers()) {
    if (!worker.can_prefill() || worker.load.state != WorkerState::kServing) continue;
    const int64_t tokens = AssignmentOf(ledger_.assigned(), id).uncomputed_prompt_tokens;
    least = std::min(least.value_or(tokens), tokens);
  }
  return least;
}

Forecast PlacingQueue::ForecastFor(const JobSpec& spec, bool has_room) const {
  if (line_.size() == 0 || !pace_.known()) return {};
  const JobNeeds needs = NeedsOf(spec);
  const std::vector<WorkerId> avoid = hold_ ? hold_->workers : std::vector<WorkerId>();
  if (has_room &&
      Place(registry_, ledger_.assigned(), needs, options_.placement, avoid).verdict == PlacementVerdict::kPlaced) {
    return {};
  }
  const TimeNs now = clock_.Now();
  const int64_t target_ns = options_.ttft_target_ms * kNsPerMs;
  const auto line_ns = [&](bool late) {
    const int64_t cost = line_.CostAhead(spec, late);
    return std::max(pace_.NsForCost(now, cost), line_.OwnWaitNs(spec, cost, now));
  };
  Forecast forecast = {.line_ns = line_ns(false),
                       .prompt_ns = line_.NsToFirstToken(LeastUncomputedTokens().value_or(0) + spec.prompt_tokens())};
  // A job that becomes late goes behind the late ones before it, which may be overdue when it is placed.
  if (target_ns > 0 && forecast.line_ns + forecast.prompt_ns > target_ns) forecast.line_ns = line_ns(true);
  return forecast;
}

}  // namespace baton::router
