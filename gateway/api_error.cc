#include "gateway/api_error.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "router/error_details.h"

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

}  // namespace

ApiError DescribeError(const absl::Status& status) {
  const auto field = router::GetFieldError(status);
  if (!field.has_value()) return {.message = std::string(status.message()), .param = std::nullopt};
  std::string param = ParamOf(field->field);
  std::string message = absl::StrCat(param, ": ", field->description);
  return {.message = std::move(message), .param = std::move(param)};
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
