// Errors as clients see them: an absl::Status that also names the field at fault, or says when to try again. Adapters
// render these details in their own protocol.
#ifndef BATON_ROUTER_ERROR_DETAILS_H_
#define BATON_ROUTER_ERROR_DETAILS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace baton::router {

struct FieldError {
  // Path in the request, such as "sampling.top_p".
  std::string field;
  std::string description;
};

// An error with the message "FIELD: DESCRIPTION" and `error` as its detail.
absl::Status FieldStatus(absl::StatusCode code, const FieldError& error);
// The same with INVALID_ARGUMENT.
absl::Status FieldViolation(std::string_view field, std::string_view description);
std::optional<FieldError> GetFieldError(const absl::Status& status);
// The same error, by another name of its field. What else it carries, it keeps; an error of no field stays as it is.
absl::Status WithField(const absl::Status& status, std::string_view field);

// When a client may come back of whom nobody can say more.
inline constexpr int64_t kUnknownRetryAfterMs = 500;

// Adds to RESOURCE_EXHAUSTED the time after which a client may try again, unless it has one; gives any other status
// back as it is.
absl::Status WithRetryAfter(absl::Status status, int64_t retry_after_ms = kUnknownRetryAfterMs);
std::optional<int64_t> GetRetryAfterMs(const absl::Status& status);

}  // namespace baton::router

#endif  // BATON_ROUTER_ERROR_DETAILS_H_
