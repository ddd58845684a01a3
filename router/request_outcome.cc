#include "router/request_outcome.h"

namespace baton::router {

const char* RequestOutcomeName(RequestOutcome outcome) {
  switch (outcome) {
    case RequestOutcome::kOk:
      return "ok";
    case RequestOutcome::kCancelled:
      return "cancelled";
    case RequestOutcome::kDeadline:
      return "deadline";
    case RequestOutcome::kRefused:
      return "refused";
    case RequestOutcome::kUnavailable:
      return "unavailable";
    case RequestOutcome::kFailed:
      break;
  }
  return "failed";
}

RequestOutcome OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return RequestOutcome::kOk;
    case absl::StatusCode::kCancelled:
      return RequestOutcome::kCancelled;
    case absl::StatusCode::kDeadlineExceeded:
      return RequestOutcome::kDeadline;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
      return RequestOutcome::kRefused;
    case absl::StatusCode::kUnavailable:
      return RequestOutcome::kUnavailable;
    default:
      return RequestOutcome::kFailed;
  }
}

}  // namespace baton::router
