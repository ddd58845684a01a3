#include "common/rpc/retry_delay.h"

#include <algorithm>
#include <limits>

#include "google/rpc/error_details.pb.h"

namespace baton::rpc {

std::optional<int64_t> RetryDelayMs(const google::rpc::Status& status) {
  // A second less than what fits, for the fraction.
  constexpr int64_t kMaxSeconds = std::numeric_limits<int64_t>::max() / 1000 - 1;
  std::optional<int64_t> delay_ms;
  google::rpc::RetryInfo retry;
  for (const google::protobuf::Any& detail : status.details()) {
    if (!detail.UnpackTo(&retry)) continue;
    const int64_t seconds = std::clamp<int64_t>(retry.retry_delay().seconds(), 0, kMaxSeconds);
    delay_ms = seconds * 1000 + std::clamp(retry.retry_delay().nanos(), 0, 999'999'999) / 1'000'000;
  }
  return delay_ms;
}

}  // namespace baton::rpc
