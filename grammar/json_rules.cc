#include "grammar/json_rules.h"

#include <algorithm>
#include <utility>

#include "grammar/code_points.h"
#include "grammar/json_spelling.h"

namespace baton::grammar {
namespace {

// The longest number that is spelled without its exponent.
constexpr size_t kMaxPlainNumberBytes = 32;

}  // namespace

int32_t JsonRules::StringRest(int64_t min_length, int64_t max_length) {
  const auto [it, is_new] = strings_.try_emplace({min_length, max_length}, -1);
  if (!is_new) return it->second;
  const int32_t rule = graph_.AddRule("a string");
  it->second = rule;
  const int32_t accept = graph_.rule(rule).accept;
  int32_t at = graph_.rule(rule).start;
  if (min_length == 0 && max_length < 0) {
    AddCharacter(at, at);
    graph_.AddByte(at, '"', accept);
    return rule;
  }
  const int32_t character = CharacterRule();
  for (int64_t i = 0; i < std::max(min_length, max_length) && !graph_.is_full(); ++i) {
    if (i >= min_length) graph_.AddByte(at, '"', accept);
    at = graph_.Call(at, character);
  }
  if (max_length < 0) graph_.AddCall(at, character, at);
  graph_.AddByte(at, '"', accept);
  return rule;
}

int32_t JsonRules::CharacterRule() {
  if (character_ < 0) {
    character_ = graph_.AddRule("a character");
    AddCharacter(graph_.rule(character_).start, graph_.rule(character_).accept);
  }
  return character_;
}

void JsonRules::AddCharacter(int32_t from, int32_t to) {
  const CodePointSet escaped({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  AddCharacters(escaped.Complement(), Spelling::kPlain, from, to, &graph_);
  AddEscape(from, to);
}

void JsonRules::AddEscape(int32_t from, int32_t to) {
  const int32_t escape = graph_.Text(from, "\\");
  for (const char c : std::string_view("\"\\/bfnrt")) graph_.AddByte(escape, c, to);
  const int32_t unicode = graph_.Text(escape, "u");
  // All but D8 to DF are characters of their own.
  const int32_t other = graph_.AddState();
  graph_.AddBytes(unicode, '0', '9', other);
  for (const char upper : std::string_view("ABCEF")) {
    graph_.AddByte(unicode, upper, other);
    graph_.AddByte(unicode, static_cast<char>(upper - 'A' + 'a'), other);
  }
  graph_.AddEmpty(AddHexDigits(3, other), to);
  const int32_t after_d = graph_.AddState();
  for (const char d : {'d', 'D'}) graph_.AddByte(unicode, d, after_d);
  graph_.AddEmpty(AddHexDigits(2, graph_.Bytes(after_d, '0', '7')), to);
  // The two halves of a surrogate pair.
  const int32_t high = graph_.AddState();
  graph_.AddBytes(after_d, '8', '9', high);
  graph_.AddBytes(after_d, 'a', 'b', high);
  graph_.AddBytes(after_d, 'A', 'B', high);
  const int32_t second = graph_.Text(AddHexDigits(2, high), "\\u");
  const int32_t second_d = graph_.AddState();
  for (const char d : {'d', 'D'}) graph_.AddByte(second, d, second_d);
  const int32_t low = graph_.AddState();
  graph_.AddBytes(second_d, 'c', 'f', low);
  graph_.AddBytes(second_d, 'C', 'F', low);
  graph_.AddEmpty(AddHexDigits(2, low), to);
}

int32_t JsonRules::AddHexDigits(int count, int32_t from) {
  for (int i = 0; i < count; ++i) {
    const int32_t to = graph_.AddState();
    AddDigit(from, to);
    graph_.AddBytes(from, 'a', 'f', to);
    graph_.AddBytes(from, 'A', 'F', to);
    from = to;
  }
  return from;
}

int32_t JsonRules::AddNumber(bool is_integer, int32_t from) {
  const int32_t sign = graph_.Optional(from, '-');
  const int32_t to = graph_.AddState();
  const int32_t digit = graph_.Bytes(sign, '1', '9');
  const int32_t more = graph_.Bytes(digit, '0', '9');
  AddDigit(more, more);
  graph_.AddEmpty(more, to);
  const int32_t one_digit = graph_.AddState();
  graph_.AddEmpty(digit, one_digit);
  graph_.AddByte(sign, '0', one_digit);
  graph_.AddEmpty(one_digit, to);
  if (is_integer) return to;
  AddFraction(more, to);
  AddExponent(one_digit, to);
  AddExponent(AddFraction(one_digit, to), to);
  return to;
}

// The state in which digits may go on.
int32_t JsonRules::AddFraction(int32_t from, int32_t to) {
  const int32_t fraction = graph_.Bytes(graph_.Text(from, "."), '0', '9');
  AddDigit(fraction, fraction);
  graph_.AddEmpty(fraction, to);
  return fraction;
}

// Up to 307.
void JsonRules::AddExponent(int32_t from, int32_t to) {
  const int32_t e = graph_.AddState();
  for (const char c : {'e', 'E'}) graph_.AddByte(from, c, e);
  const int32_t sign = graph_.Optional(e, '+');
  graph_.AddByte(e, '-', sign);
  const int32_t last = graph_.AddState();
  AddDigit(last, to);
  AddDigit(sign, to);
  AddDigit(sign, last);
  AddDigit(graph_.Bytes(sign, '1', '2'), last);
  graph_.AddBytes(graph_.Text(sign, "30"), '0', '7', to);
}

std::string SpellNumber(std::string_view number) {
  const absl::StatusOr<Decimal> decimal = ToDecimal(number);
  if (!decimal.ok() || decimal->ToText().size() > kMaxPlainNumberBytes) return std::string(number);
  return decimal->ToText();
}

int32_t JsonRules::AddValue(const JsonValue& value, int32_t from) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return graph_.Text(from, "null");
    case JsonValue::Kind::kBool:
      return graph_.Text(from, value.boolean ? "true" : "false");
    case JsonValue::Kind::kNumber:
      return graph_.Text(from, SpellNumber(value.text));
    case JsonValue::Kind::kString:
      return graph_.Text(from, SpellJsonString(value.text));
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      break;
  }
  from = graph_.Text(from, value.is_object() ? "{" : "[");
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) from = AddComma(from);
    if (value.is_object()) from = AddColon(graph_.Text(from, SpellJsonString(value.keys[i])));
    from = AddValue(value.items[i], from);
  }
  return graph_.Text(from, value.is_object() ? "}" : "]");
}

}  // namespace baton::grammar
