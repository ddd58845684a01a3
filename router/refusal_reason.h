// Why the router did not serve a request, as a detail of the status that its client gets: metrics count refusals by it.
#ifndef BATON_ROUTER_REFUSAL_REASON_H_
#define BATON_ROUTER_REFUSAL_REASON_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"

namespace baton::router {

enum class RefusalReason : uint8_t {
  kInvalid,         // the request breaks a rule of the API
  kUnsupported,     // it asks for what is not built
  kTooLong,         // its prompt fits no context or no pool
  kQueueFull,       // too many requests wait for workers, or no worker had room in too many attempts
  kDeadline,        // its deadline would pass before its first token
  kTenantRate,      // its tenant has used up its tokens (tenant_buckets.h)
  kClientWorkFull,  // too many requests wait to be read
  kDraining,        // the router ends
  kNoWorkers,       // nobody could serve it in time
  kSlowReader,      // its client did not read the output
  kPoisoned,        // workers died of it
  kOther,
};
inline constexpr std::array kRefusalReasons = {
    RefusalReason::kInvalid,   RefusalReason::kUnsupported, RefusalReason::kTooLong,        RefusalReason::kQueueFull,
    RefusalReason::kDeadline,  RefusalReason::kTenantRate,  RefusalReason::kClientWorkFull, RefusalReason::kDraining,
    RefusalReason::kNoWorkers, RefusalReason::kSlowReader,  RefusalReason::kPoisoned,       RefusalReason::kOther};

// "invalid", "too_long", ...: the values of the label `reason`.
const char* RefusalReasonName(RefusalReason reason);

absl::Status WithReason(absl::Status status, RefusalReason reason);
// The end of a request whose client does not read: RESOURCE_EXHAUSTED with kSlowReader.
absl::Status SlowReader();
// A request comes while too many wait to be read: RESOURCE_EXHAUSTED with kClientWorkFull.
absl::Status ClientWorkFull();
// What WithReason has said, else what the code says. `status` is not OK.
RefusalReason GetRefusalReason(const absl::Status& status);

}  // namespace baton::router

#endif  // BATON_ROUTER_REFUSAL_REASON_H_
