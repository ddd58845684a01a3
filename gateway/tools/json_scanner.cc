#include "gateway/tools/json_scanner.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "gateway/json_reading.h"

namespace baton::gateway {
namespace {

bool IsHighSurrogate(uint32_t code) { return code >= 0xD800 && code <= 0xDBFF; }
bool IsLowSurrogate(uint32_t code) { return code >= 0xDC00 && code <= 0xDFFF; }

bool IsFiniteDouble(const std::string& number) {
  double value = 0;
  return absl::SimpleAtod(number, &value) && std::isfinite(value);
}

}  // namespace

JsonScanner::Result JsonScanner::Take(char c) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kHex:
      return TakeString(c);
    case State::kLiteral:
      if (c != literal_.front()) return Result::kBad;
      literal_.remove_prefix(1);
      return literal_.empty() ? EndValue() : Result::kMore;
    case State::kMinus:
    case State::kZero:
    case State::kDigits:
    case State::kPoint:
    case State::kFraction:
    case State::kExponent:
    case State::kExponentSign:
    case State::kExponentDigits:
      return TakeNumber(c);
    default:
      return TakeStructure(c);
  }
}

JsonScanner::Result JsonScanner::TakeStructure(char c) {
  if (IsJsonSpace(c) && !open_.empty()) return Result::kMore;
  switch (state_) {
    case State::kFirstItem:
      return c == ']' ? Close('[') : BeginValue(c);
    case State::kFirstKey:
      if (c == '}') return Close('{');
      [[fallthrough]];
    case State::kKey:
      is_key_ = true;
      return c == '"' ? To(State::kString) : Result::kBad;
    case State::kColon:
      return c == ':' ? To(State::kValue) : Result::kBad;
    case State::kNext:
      if (c == ',') return To(open_.back() == '{' ? State::kKey : State::kValue);
      return c == ']' ? Close('[') : c == '}' ? Close('{') : Result::kBad;
    default:
      return BeginValue(c);
  }
}

JsonScanner::Result JsonScanner::BeginValue(char c) {
  is_key_ = false;
  if (c == '"') return To(State::kString);
  if (c == '{') return Open(c, State::kFirstKey);
  if (c == '[') return Open(c, State::kFirstItem);
  if (open_.empty()) return Result::kBad;
  number_ = c;
  if (c == '-') return To(State::kMinus);
  if (c == '0') return To(State::kZero);
  if (absl::ascii_isdigit(c)) return To(State::kDigits);
  literal_ = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : "";
  return literal_.empty() ? Result::kBad : To(State::kLiteral);
}

JsonScanner::Result JsonScanner::TakeString(char c) {
  if (state_ == State::kHex) {
    if (!absl::ascii_isxdigit(c)) return Result::kBad;
    hex_ += c;
    return hex_.size() == 4 ? EndUnicodeEscape() : Result::kMore;
  }
  if (state_ == State::kEscape) {
    hex_.clear();
    if (c == 'u') return To(State::kHex);
    if (needs_low_surrogate_) return Result::kBad;
    return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos ? To(State::kString) : Result::kBad;
  }
  if (static_cast<uint8_t>(c) < 0x20) return Result::kBad;
  if (c == '\\') return To(State::kEscape);
  if (needs_low_surrogate_) return Result::kBad;
  if (c != '"') return Result::kMore;
  return is_key_ ? To(State::kColon) : EndValue();
}

JsonScanner::Result JsonScanner::EndUnicodeEscape() {
  uint32_t code = 0;
  const bool is_low = absl::SimpleHexAtoi(hex_, &code) && IsLowSurrogate(code);
  if (is_low != needs_low_surrogate_) return Result::kBad;
  needs_low_surrogate_ = IsHighSurrogate(code);
  return To(State::kString);
}

JsonScanner::Result JsonScanner::TakeNumber(char c) {
  const bool is_digit = absl::ascii_isdigit(c);
  const bool is_exponent = c == 'e' || c == 'E';
  number_ += c;
  switch (state_) {
    case State::kMinus:
      return !is_digit ? Result::kBad : To(c == '0' ? State::kZero : State::kDigits);
    case State::kPoint:
      return is_digit ? To(State::kFraction) : Result::kBad;
    case State::kExponent:
      if (c == '+' || c == '-') return To(State::kExponentSign);
      [[fallthrough]];
    case State::kExponentSign:
      return is_digit ? To(State::kExponentDigits) : Result::kBad;
    default:
      break;
  }
  // The number may end here.
  if (is_digit && state_ != State::kZero) return Result::kMore;
  const bool is_whole = state_ == State::kZero || state_ == State::kDigits;
  if (c == '.' && is_whole) return To(State::kPoint);
  if (is_exponent && state_ != State::kExponentDigits) return To(State::kExponent);
  number_.pop_back();
  if (!IsFiniteDouble(number_)) return Result::kBad;
  state_ = State::kNext;
  return TakeStructure(c);
}

JsonScanner::Result JsonScanner::EndValue() { return open_.empty() ? Result::kDone : To(State::kNext); }

JsonScanner::Result JsonScanner::Open(char bracket, State state) {
  if (open_.size() == kMaxJsonDepth) return Result::kBad;
  open_.push_back(bracket);
  return To(state);
}

JsonScanner::Result JsonScanner::Close(char bracket) {
  if (open_.back() != bracket) return Result::kBad;
  open_.pop_back();
  return EndValue();
}

}  // namespace baton::gateway
