#include "grammar/json_value.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "grammar/grammar_limits.h"
#include "nlohmann/json.hpp"

namespace baton::grammar {
namespace {

// Builds the tree while nlohmann's parser reads. The names are those that the parser calls.
// NOLINTBEGIN(readability-identifier-naming)
class JsonTreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonTreeBuilder(std::string_view what) : what_(what) {}

  bool null() override { return Add({}) != nullptr; }
  bool boolean(bool value) override {
    JsonValue* added = Add(JsonValue::Kind::kBool);
    if (added != nullptr) added->boolean = value;
    return added != nullptr;
  }
  bool number_integer(number_integer_t value) override {
    return AddText(JsonValue::Kind::kNumber, absl::StrCat(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return AddText(JsonValue::Kind::kNumber, absl::StrCat(value));
  }
  bool number_float(number_float_t, const string_t& text) override { return AddText(JsonValue::Kind::kNumber, text); }
  bool string(string_t& text) override { return AddText(JsonValue::Kind::kString, text); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(JsonValue::Kind::kObject); }
  bool start_array(size_t) override { return Open(JsonValue::Kind::kArray); }
  bool key(string_t& text) override {
    open_.back()->keys.push_back(text);
    return true;
  }
  bool end_object() override {
    std::vector<std::string> keys = open_.back()->keys;
    open_.pop_back();
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return true;
    status_ = absl::InvalidArgumentError(absl::StrCat(ToAbsl(what_), " has the key ", twice->substr(0, 64), " twice"));
    return false;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    status_ = absl::InvalidArgumentError(absl::StrCat(ToAbsl(what_), " is not valid JSON at byte ", position));
    return false;
  }

  absl::StatusOr<JsonValue> Take() {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }

 private:
  JsonValue* Add(JsonValue::Kind kind) {
    if (++values_ > kMaxSourceValues) {
      status_ =
          absl::ResourceExhaustedError(absl::StrCat(ToAbsl(what_), " has more than ", kMaxSourceValues, " values"));
      return nullptr;
    }
    JsonValue* added = &root_;
    if (!open_.empty()) added = &open_.back()->items.emplace_back();
    added->kind = kind;
    return added;
  }
  bool AddText(JsonValue::Kind kind, const std::string& text) {
    JsonValue* added = Add(kind);
    if (added != nullptr) added->text = text;
    return added != nullptr;
  }
  bool Open(JsonValue::Kind kind) {
    JsonValue* added = Add(kind);
    if (added == nullptr) return false;
    open_.push_back(added);
    if (open_.size() <= kMaxSourceNesting) return true;
    status_ = absl::ResourceExhaustedError(absl::StrCat(ToAbsl(what_), " nests deeper than ", kMaxSourceNesting));
    return false;
  }

  const std::string_view what_;
  absl::Status status_;
  JsonValue root_;
  // The last of its parent's items, which get no further one before it is closed.
  std::vector<JsonValue*> open_;
  int values_ = 0;
};
// NOLINTEND(readability-identifier-naming)

int CompareMagnitudes(const Decimal& a, const Decimal& b) {
  if (a.integer.size() != b.integer.size()) return a.integer.size() < b.integer.size() ? -1 : 1;
  const int order = a.integer.compare(b.integer);
  return order != 0 ? order : a.fraction.compare(b.fraction);
}

bool AreEqualNumbers(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto left = ToDecimal(a);
  const auto right = ToDecimal(b);
  return left.ok() && right.ok() && *left == *right;
}

}  // namespace

const JsonValue* JsonValue::Find(std::string_view key) const {
  const auto it = std::find(keys.begin(), keys.end(), key);
  return it == keys.end() ? nullptr : &items[it - keys.begin()];
}

absl::StatusOr<JsonValue> ParseJson(std::string_view text, std::string_view what) {
  JsonTreeBuilder builder(what);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.Take();
}

std::string Decimal::ToText() const {
  return absl::StrCat(is_negative ? "-" : "", integer, fraction.empty() ? "" : ".", fraction);
}

absl::StatusOr<Decimal> ToDecimal(std::string_view number) {
  Decimal decimal;
  const std::string shown(number.substr(0, 64));
  const auto too_long = [&shown] {
    return absl::ResourceExhaustedError(
        absl::StrCat("the number ", shown, " has more than ", kMaxBoundDigits, " digits"));
  };
  if (number.substr(0, 1) == "-") {
    decimal.is_negative = true;
    number.remove_prefix(1);
  }
  int32_t exponent = 0;
  if (const size_t e = number.find_first_of("eE"); e != std::string_view::npos) {
    if (!absl::SimpleAtoi(ToAbsl(number.substr(e + 1)), &exponent)) return too_long();
    number = number.substr(0, e);
  }
  const size_t point = std::min(number.find('.'), number.size());
  std::string digits(number.substr(0, point));
  if (point < number.size()) digits += number.substr(point + 1);
  int64_t whole = static_cast<int64_t>(point) + exponent;  // How many of the digits are before the point.
  if (digits.size() > kMaxBoundDigits || whole > kMaxBoundDigits || whole < -kMaxBoundDigits) return too_long();
  if (whole < 0) digits = absl::StrCat(std::string(static_cast<size_t>(-whole), '0'), digits);
  whole = std::max<int64_t>(whole, 0);
  if (whole > static_cast<int64_t>(digits.size())) digits.resize(whole, '0');
  decimal.integer = digits.substr(0, whole);
  decimal.fraction = digits.substr(whole);
  decimal.integer.erase(0, std::min(decimal.integer.find_first_not_of('0'), decimal.integer.size()));
  if (decimal.integer.empty()) decimal.integer.push_back('0');
  while (!decimal.fraction.empty() && decimal.fraction.back() == '0') decimal.fraction.pop_back();
  if (decimal.is_zero()) decimal.is_negative = false;
  return decimal;
}

bool IsLess(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative;
  return a.is_negative ? CompareMagnitudes(b, a) < 0 : CompareMagnitudes(a, b) < 0;
}

bool AreEqual(const JsonValue& a, const JsonValue& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  switch (a.kind) {
    case JsonValue::Kind::kNull:
      return true;
    case JsonValue::Kind::kBool:
      return a.boolean == b.boolean;
    case JsonValue::Kind::kNumber:
      return AreEqualNumbers(a.text, b.text);
    case JsonValue::Kind::kString:
      return a.text == b.text;
    case JsonValue::Kind::kArray:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), AreEqual);
    case JsonValue::Kind::kObject:
      break;
  }
  for (size_t i = 0; i < a.keys.size(); ++i) {
    const JsonValue* other = b.Find(a.keys[i]);
    if (other == nullptr || !AreEqual(a.items[i], *other)) return false;
  }
  return true;
}

}  // namespace baton::grammar
