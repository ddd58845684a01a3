// Follows a JSON value byte by byte, and says where it ends and where it is none.
#ifndef BATON_GATEWAY_TOOLS_JSON_SCANNER_H_
#define BATON_GATEWAY_TOOLS_JSON_SCANNER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::gateway {

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Follows one value. It is an array, an object or a string, for these end with a byte of their own. Strings may have
// any bytes that JSON does not forbid, and half a surrogate pair only beside its other half. A double holds every
// number, and nesting is bounded by kMaxJsonDepth. So whoever is sent such a value can read it, and send it back.
class JsonScanner {
 public:
  enum class Result : uint8_t {
    kMore,
    // The byte was the last one of the value.
    kDone,
    // The bytes so far begin no value. No further byte may come.
    kBad,
  };

  // The first byte must be [, { or a quotation mark.
  Result Take(char c);

 private:
  enum class State : uint8_t {
    kValue,
    kFirstItem,
    kFirstKey,
    kKey,
    kColon,
    kNext,
    kString,
    kEscape,
    kHex,
    kLiteral,
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  Result To(State state) {
    state_ = state;
    return Result::kMore;
  }
  Result TakeStructure(char c);
  Result BeginValue(char c);
  Result TakeString(char c);
  Result EndUnicodeEscape();
  Result TakeNumber(char c);
  // A value that has ended is the whole, or one in an array or object.
  Result EndValue();
  Result Open(char bracket, State state);
  Result Close(char bracket);

  State state_ = State::kValue;
  // The brackets that are open.
  std::string open_;
  // The string under way is the name of a member.
  bool is_key_ = false;
  // The digits of the \u escape that is under way.
  std::string hex_;
  // A high surrogate came, which only the escape of a low one may follow.
  bool needs_low_surrogate_ = false;
  // The number that is under way, or the last one.
  std::string number_;
  // What is to come of true, false or null.
  std::string_view literal_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_TOOLS_JSON_SCANNER_H_
