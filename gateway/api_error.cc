#include "gateway/api_error.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gateway/field_reader.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"

namespace baton::gateway {
namespace {

// The router names fields in its own words.
std::string ParamOf(const std::string& field) {
  absl::string_view name = field;
  for (const absl::string_view prefix : {"sampling.", "chat."}) {
    if (absl::StartsWith(name, prefix)) name.remove_prefix(prefix.size());
  }
  if (name == "text" || name == "token_ids") return "prompt";
  if (name == "chat") return "messages";
  return std::string(name);
}

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

}  // namespace

ApiError DescribeError(const absl::Status& status) {
  ApiError error = {
      .http_status = HttpStatusOf(status.code()), .message = std::string(status.message()), .param = std::nullopt};
  if (const auto field = router::GetFieldError(status)) {
    // A field that is not known has the name that the client gave it, whatever that means to the router.
    error.param = field->description == kUnknownField ? field->field : ParamOf(field->field);
    error.message = absl::StrCat(*error.param, ": ", field->description);
  }
  error.is_too_long = router::GetRefusalReason(status) == router::RefusalReason::kTooLong;
  return error;
}

HttpHeaders ErrorHeaders(const absl::Status& status) {
  if (absl::IsUnauthenticated(status)) return {{"WWW-Authenticate", "Bearer"}};
  const auto retry_after_ms = router::GetRetryAfterMs(status);
  if (!retry_after_ms.has_value()) return {};
  // Whole seconds for everybody; the clients of OpenAI and Anthropic wait for the milliseconds instead.
  return {{"Retry-After", absl::StrCat((*retry_after_ms + 999) / 1000)},
          {"Retry-After-Ms", absl::StrCat(*retry_after_ms)}};
}

}  // namespace baton::gateway
