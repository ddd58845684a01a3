// What an error says to clients of HTTP, before an API gives it its form.
#ifndef BATON_GATEWAY_API_ERROR_H_
#define BATON_GATEWAY_API_ERROR_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "gateway/http_types.h"

namespace baton::gateway {

struct ApiError {
  int http_status = 500;
  // Begins with the field at fault, where there is one.
  std::string message;
  // The request's own name of that field.
  std::optional<std::string> param;
  // The prompt has no room in the model's context, or in any worker's memory: a shorter one may have.
  bool is_too_long = false;
};

ApiError DescribeError(const absl::Status& status);

// What the header of the response says of the error: when the client may come again, or how it may prove who it is.
HttpHeaders ErrorHeaders(const absl::Status& status);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_ERROR_H_
