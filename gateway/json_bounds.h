// Bounds of a JSON text, before it is parsed: a parsed value takes far more memory than its text.
#ifndef BATON_GATEWAY_JSON_BOUNDS_H_
#define BATON_GATEWAY_JSON_BOUNDS_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton::gateway {

inline constexpr size_t kMaxJsonDepth = 64;
// A prompt may have as many token ids as a context has room for.
inline constexpr size_t kMaxJsonValues = size_t{1} << 19;

// INVALID_ARGUMENT for what is no JSON object, or is beyond a bound.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_JSON_BOUNDS_H_
