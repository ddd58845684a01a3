// Reads the JSON of clients. Its text is bounded before it is parsed, because a parsed value takes far more memory.
#ifndef BATON_GATEWAY_JSON_READING_H_
#define BATON_GATEWAY_JSON_READING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton::gateway {

inline constexpr size_t kMaxJsonDepth = 64;
// A prompt may have as many token ids as a context has room for.
inline constexpr size_t kMaxJsonValues = size_t{1} << 19;

// INVALID_ARGUMENT for what is no JSON object, or is beyond a bound.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text);

// Whole numbers of 32 bits, alone and in a list; nullopt for everything else.
std::optional<int32_t> ToInt32(const nlohmann::json& value);
std::optional<std::vector<int32_t>> ToInt32s(const nlohmann::json& value);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_JSON_READING_H_
