// How a process that ends speaks of the requests for which its drain time-out was too short.
#ifndef BATON_COMMON_DRAIN_H_
#define BATON_COMMON_DRAIN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/ids.h"

namespace baton {

// Less than the 30 s between SIGTERM and SIGKILL that Kubernetes gives by default, so that streams which take longer
// end with an error that says why.
inline constexpr int kDrainTimeoutMs = 25'000;
// A day.
inline constexpr int kMaxDrainTimeoutMs = 86'400'000;
// What a process that drains has beyond its time-out before others give it up: it still has to cut what runs, and to
// end the step of its engine.
inline constexpr int64_t kDrainMarginMs = 5'000;
// How many of the requests that were cut a log line names.
inline constexpr size_t kMaxNamedRequests = 16;

// UNAVAILABLE: why the request ends before its output does.
absl::Status CutByDrain(const ChoiceKey& request, int64_t timeout_ms);

// For the log: how many requests were cut, and which. `cut` is not empty.
std::string DescribeCut(absl::Span<const ChoiceKey> cut, int64_t timeout_ms);

}  // namespace baton

#endif  // BATON_COMMON_DRAIN_H_
