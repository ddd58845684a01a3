#include "gateway/json_reading.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::gateway {
namespace {

// Counts by the characters outside of strings. What is no JSON may pass, and fails in the parser.
absl::Status CheckBounds(std::string_view text) {
  size_t depth = 0;
  size_t values = 1;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == ',' || c == '[' || c == '{') ++values;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > kMaxJsonDepth) {
      return absl::InvalidArgumentError(absl::StrCat("the JSON is nested deeper than ", kMaxJsonDepth));
    }
    if (values > kMaxJsonValues) {
      return absl::InvalidArgumentError(absl::StrCat("the JSON has more than ", kMaxJsonValues, " values"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text) {
  BATON_RETURN_IF_ERROR(CheckBounds(text));
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::InvalidArgumentError("the body is no JSON in UTF-8");
  if (!parsed.is_object()) return absl::InvalidArgumentError("the body is no JSON object");
  return parsed;
}

std::optional<int32_t> ToInt32(const nlohmann::json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > std::numeric_limits<int32_t>::max()) return std::nullopt;
  const auto wide = value.get<int64_t>();
  if (wide < std::numeric_limits<int32_t>::min()) return std::nullopt;
  return static_cast<int32_t>(wide);
}

std::optional<std::vector<int32_t>> ToInt32s(const nlohmann::json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<int32_t> integers;
  integers.reserve(value.size());
  for (const nlohmann::json& each : value) {
    const auto integer = ToInt32(each);
    if (!integer.has_value()) return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

}  // namespace baton::gateway
