// Two macros that pass an absl::Status up, and conversions to and from abseil's own string_view.
#ifndef BATON_COMMON_STATUS_H_
#define BATON_COMMON_STATUS_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Returns from the enclosing function when `expr` is an error.
#define BATON_RETURN_IF_ERROR(expr)                    \
  do {                                                 \
    if (absl::Status s_ = (expr); !s_.ok()) return s_; \
  } while (false)

#define BATON_STATUS_CONCAT_INNER(a, b) a##b
#define BATON_STATUS_CONCAT(a, b) BATON_STATUS_CONCAT_INNER(a, b)

// BATON_ASSIGN_OR_RETURN(auto x, MayFail()): declares or assigns the left side, or returns the error.
#define BATON_ASSIGN_OR_RETURN(lhs, expr) \
  BATON_ASSIGN_OR_RETURN_IMPL(BATON_STATUS_CONCAT(status_or_, __LINE__), lhs, expr)
#define BATON_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  lhs = *std::move(result)

namespace baton {

// Debian's absl::string_view is a type of its own, which does not convert to std::string_view. These functions do.
inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }

}  // namespace baton

#endif  // BATON_COMMON_STATUS_H_
