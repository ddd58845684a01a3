#include "router/queue_pace.h"

#include <algorithm>

namespace baton::router {

void QueuePace::OnPlaced(const PlacedJob& placed) {
  if (placed.now - placed.waits_since < kShortestWaitNs) return;
  calls_ = std::max(static_cast<double>(placed.calls), calls_ * (1 - 1.0 / kPlacementsRemembered));
  for (Sums& sums : sums_) {
    const double kept = 1 - 1 / std::max<double>(sums.remembered, calls_);
    sums.elapsed_ns = sums.elapsed_ns * kept + static_cast<double>(placed.now - since_);
    sums.cost = sums.cost * kept + static_cast<double>(placed.cost);
    sums.jobs = sums.jobs * kept + 1;
    sums.jobs_with_usual_outputs = sums.jobs_with_usual_outputs * kept + (placed.has_usual_outputs ? 1 : 0);
  }
  since_ = placed.now;
  ++placements_;
}

void QueuePace::OnUsualCostChanged(double more) {
  // No job costs less than a token.
  for (Sums& sums : sums_) sums.cost = std::max(sums.cost + more * sums.jobs_with_usual_outputs, sums.jobs);
}

int64_t QueuePace::Share(TimeNs now, double part, double Sums::*whole) const {
  if (!known()) return 0;
  const auto standing = static_cast<double>(waiting_ > 0 ? std::max<int64_t>(now - since_, 0) : 0);
  double slowest_ns = 0;
  for (const Sums& sums : sums_) {
    if (sums.*whole > 0) slowest_ns = std::max(slowest_ns, (sums.elapsed_ns + standing) * part / (sums.*whole));
  }
  return static_cast<int64_t>(slowest_ns);
}

}  // namespace baton::router
