#include "grammar/schema_values.h"

#include "common/status.h"
#include "common/utf8.h"

namespace baton::grammar {

absl::StatusOr<bool> SchemaValues::Allows(const JsonValue& value) {
  if ((schema_.types & TypeOf(value)) == 0) return false;
  switch (value.kind) {
    case JsonValue::Kind::kString:
      return AllowsString(value);
    case JsonValue::Kind::kNumber:
      return AllowsNumber(value);
    case JsonValue::Kind::kArray:
      if (schema_.arrays.empty() && schema_.items.is_any()) return true;
      return absl::UnimplementedError(
          "schema: an array in enum or const beside items, minItems or maxItems is not supported");
    case JsonValue::Kind::kObject:
      if (schema_.objects.empty() && schema_.required.empty()) return true;
      return absl::UnimplementedError(
          "schema: an object in enum or const beside properties or required is not supported");
    default:
      return true;
  }
}

absl::StatusOr<bool> SchemaValues::AllowsString(const JsonValue& value) {
  const auto length = static_cast<int64_t>(CountCodePoints(value.text));
  const auto [min, max] = schema_.length;
  if (length < min || (max >= 0 && length > max)) return false;
  if (schema_.patterns.empty() && schema_.formats.empty()) return true;
  if (!content_.has_value()) {
    BATON_ASSIGN_OR_RETURN(content_, strings_.Content(schema_, Spelling::kPlain));
  }
  return content_->Matches(value.text);
}

absl::StatusOr<bool> SchemaValues::AllowsNumber(const JsonValue& value) const {
  BATON_ASSIGN_OR_RETURN(const Decimal number, ToDecimal(value.text));
  const auto& [lower, upper] = schema_.bounds;
  if (lower.has_value()) {
    if (IsLess(number, lower->value) || (lower->is_exclusive && number == lower->value)) return false;
  }
  if (upper.has_value()) {
    if (IsLess(upper->value, number) || (upper->is_exclusive && number == upper->value)) return false;
  }
  return true;
}

}  // namespace baton::grammar
