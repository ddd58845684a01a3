#include "router/retry_plan.h"

#include <algorithm>

namespace baton::router {

int64_t RetryPlan::Promise(TimeNs now, const Refused& refused) {
  const TimeNs latest = After(now, kMaxRetryAfterMs);
  const TimeNs room = std::max(now + std::min(refused.no_room_ns, latest - now), promised_until_);
  promised_until_ = std::min(room + std::min(refused.service_ns, latest - now), latest);
  const int64_t wait_ms = std::max((std::min(room, latest) - now + kNsPerMs - 1) / kNsPerMs, kMinRetryAfterMs);
  const int64_t jitter_ms = wait_ms / kJitterParts;
  return wait_ms + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(jitter_ms) + 1));
}

}  // namespace baton::router
