#include "telemetry/export_retry.h"

#include <algorithm>

namespace baton::telemetry {

int64_t ExportRetry::TryMs(TimeNs now, int64_t try_timeout_ms) const {
  return std::max<int64_t>(std::min(try_timeout_ms, (end_ - now) / kNsPerMs), 1);
}

std::optional<int64_t> ExportRetry::WaitMs(const SendResult& result, TimeNs now) {
  if (result.status.ok() || !result.retryable) return std::nullopt;
  // Between half and all of the back-off, so that processes which failed together do not come back together.
  const int64_t half_ms = backoff_ms_ / 2;
  const int64_t jittered_ms = half_ms + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(half_ms) + 1));
  backoff_ms_ = std::min(2 * backoff_ms_, kMaxRetryMs);
  const int64_t wait_ms = std::max(jittered_ms, result.retry_after_ms.value_or(0));
  if (wait_ms >= (end_ - now) / kNsPerMs) return std::nullopt;
  return wait_ms;
}

}  // namespace baton::telemetry
