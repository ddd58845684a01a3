#include "router/error_details.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"

namespace baton::router {
namespace {

// Names of the status payloads. The first holds the field, whose description follows it in the message; the second
// holds milliseconds in decimal digits.
constexpr char kFieldPayload[] = "baton/field";
constexpr char kRetryAfterPayload[] = "baton/retry-after-ms";
constexpr char kFieldSeparator[] = ": ";

}  // namespace

absl::Status FieldStatus(absl::StatusCode code, const FieldError& error) {
  absl::Status status(code, absl::StrCat(error.field, kFieldSeparator, error.description));
  status.SetPayload(kFieldPayload, absl::Cord(error.field));
  return status;
}

absl::Status FieldViolation(std::string_view field, std::string_view description) {
  return FieldStatus(absl::StatusCode::kInvalidArgument,
                     {.field = std::string(field), .description = std::string(description)});
}

std::optional<FieldError> GetFieldError(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  if (!payload.has_value()) return std::nullopt;
  std::string field(*payload);
  const std::string_view message = ToStd(status.message());
  const size_t description_at = field.size() + std::string_view(kFieldSeparator).size();
  BATON_CHECK(message.size() >= description_at) << message;
  return FieldError{.field = std::move(field), .description = std::string(message.substr(description_at))};
}

absl::Status WithField(const absl::Status& status, std::string_view field) {
  std::optional<FieldError> error = GetFieldError(status);
  if (!error.has_value() || error->field == field) return status;
  error->field = std::string(field);
  absl::Status renamed = FieldStatus(status.code(), *error);
  status.ForEachPayload([&renamed](absl::string_view url, const absl::Cord& payload) {
    if (url != kFieldPayload) renamed.SetPayload(url, payload);
  });
  return renamed;
}

absl::Status WithRetryAfter(absl::Status status, int64_t retry_after_ms) {
  if (absl::IsResourceExhausted(status) && !status.GetPayload(kRetryAfterPayload).has_value()) {
    status.SetPayload(kRetryAfterPayload, absl::Cord(absl::StrCat(retry_after_ms)));
  }
  return status;
}

std::optional<int64_t> GetRetryAfterMs(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterPayload);
  if (!payload.has_value()) return std::nullopt;
  int64_t retry_after_ms = 0;
  BATON_CHECK(absl::SimpleAtoi(std::string(*payload), &retry_after_ms));
  return retry_after_ms;
}

}  // namespace baton::router
