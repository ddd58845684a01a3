// How a request ended, in one word.
#ifndef BATON_ROUTER_REQUEST_OUTCOME_H_
#define BATON_ROUTER_REQUEST_OUTCOME_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"

namespace baton::router {

// As its client sees it.
enum class RequestOutcome : uint8_t { kOk, kCancelled, kDeadline, kRefused, kUnavailable, kFailed };
inline constexpr std::array kRequestOutcomes = {RequestOutcome::kOk,          RequestOutcome::kCancelled,
                                                RequestOutcome::kDeadline,    RequestOutcome::kRefused,
                                                RequestOutcome::kUnavailable, RequestOutcome::kFailed};
// "ok", "cancelled", ...
const char* RequestOutcomeName(RequestOutcome outcome);
RequestOutcome OutcomeOf(const absl::Status& status);

}  // namespace baton::router

#endif  // BATON_ROUTER_REQUEST_OUTCOME_H_
