// JSON as its text has it: members in their order, numbers with all their digits.
#ifndef BATON_GRAMMAR_JSON_VALUE_H_
#define BATON_GRAMMAR_JSON_VALUE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::grammar {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::string text;  // Of a string; of a number, its digits as they were written or equal ones.
  std::vector<std::string> keys;
  std::vector<JsonValue> items;  // Of an array; of an object, the values of `keys`.

  bool is_object() const { return kind == Kind::kObject; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_number() const { return kind == Kind::kNumber; }
  bool is_bool() const { return kind == Kind::kBool; }
  // Null when it is no object or has no such member. Looks at each key.
  const JsonValue* Find(std::string_view key) const;
};

// `what` names the text in messages. INVALID_ARGUMENT for a text that is not JSON or repeats a key, RESOURCE_EXHAUSTED
// beyond kMaxSourceNesting or kMaxSourceValues.
absl::StatusOr<JsonValue> ParseJson(std::string_view text, std::string_view what);

// A number without its exponent: no zeros before the integer part, "0" where it is zero, none at the end of the
// fraction.
struct Decimal {
  bool is_negative = false;  // Never of zero.
  std::string integer = "0";
  std::string fraction;

  bool is_integer() const { return fraction.empty(); }
  bool is_zero() const { return integer == "0" && fraction.empty(); }
  std::string ToText() const;
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// Requires a number of JSON. RESOURCE_EXHAUSTED for one that has more than kMaxBoundDigits digits.
absl::StatusOr<Decimal> ToDecimal(std::string_view number);
bool IsLess(const Decimal& a, const Decimal& b);

// Whether two values are equal as JSON Schema has it: 1 is 1.0, and the order of members does not count.
bool AreEqual(const JsonValue& a, const JsonValue& b);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_JSON_VALUE_H_
