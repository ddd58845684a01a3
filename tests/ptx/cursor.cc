#include "tests/ptx/cursor.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "absl/strings/numbers.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

bool ReadHex(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadInteger(std::string_view text, uint64_t* value) {
  while (!text.empty() && (text.back() == 'U' || text.back() == 'u')) text.remove_suffix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void Cursor::Fail(std::string_view what, int line) {
  if (!ok()) return;
  if (line == 0) line = tokens_[std::min(at_, tokens_.size() - 1)].line;
  status_ = absl::InvalidArgumentError(Text("PTX line ", line, ": ", what));
}

const Token& Cursor::Peek(size_t ahead) const {
  static constexpr Token kNothing = {Token::Kind::kEnd, {}, 0};
  return ok() && at_ + ahead < tokens_.size() ? tokens_[at_ + ahead] : kNothing;
}

const Token& Cursor::Next() {
  const Token& token = Peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Cursor::Is(std::string_view text, size_t ahead) const {
  const Token& token = Peek(ahead);
  return token.kind != Token::Kind::kString && token.kind != Token::Kind::kEnd && token.text == text;
}

bool Cursor::Take(std::string_view text) {
  if (!Is(text)) return false;
  Next();
  return true;
}

void Cursor::Expect(std::string_view text) {
  if (!Take(text)) Fail(Text("'", text, "' is expected before '", Peek().text, "'"));
}

std::string Cursor::Word() {
  if (Peek().kind != Token::Kind::kWord) Fail(Text("a name is expected before '", Peek().text, "'"));
  return std::string(Next().text);
}

Number Cursor::TakeNumber() {
  const bool negative = Take("-");
  const Token& token = Next();
  Number number = {Number::Kind::kInteger, 0};
  const std::string_view text = token.text;
  const bool hex_float = text.size() > 2 && text[0] == '0' && (text[1] | 0x20) >= 'd' && (text[1] | 0x20) <= 'f' &&
                         (text[1] | 0x20) != 'e';
  bool read = token.kind == Token::Kind::kNumber;
  if (read && hex_float) {
    const bool single = (text[1] | 0x20) == 'f';
    number.kind = single ? Number::Kind::kFloat32 : Number::Kind::kFloat64;
    read = ReadHex(text.substr(2), &number.bits) && text.size() == (single ? 10 : 18);
    if (negative) number.bits ^= uint64_t{1} << (single ? 31 : 63);
  } else if (read && text.find('.') != std::string_view::npos) {
    double value = 0;
    read = absl::SimpleAtod(std::string(text), &value);
    number = {Number::Kind::kFloat64, std::bit_cast<uint64_t>(negative ? -value : value)};
  } else if (read) {
    read = ReadInteger(text, &number.bits);
    if (negative) number.bits = 0 - number.bits;
  }
  if (!read) Fail(Text("'", text, "' is not a number"), token.line);
  return number;
}

uint64_t Cursor::Integer() {
  const Number number = TakeNumber();
  if (number.kind != Number::Kind::kInteger) Fail("an integer is expected");
  return number.bits;
}

void Cursor::SkipLine() {
  const int line = Peek().line;
  while (!AtEnd() && Peek().line == line) Next();
}

void Cursor::SkipBraces() {
  Expect("{");
  int depth = 1;
  while (depth > 0 && !AtEnd()) {
    const Token& token = Next();
    if (token.kind == Token::Kind::kMark) depth += token.text == "{" ? 1 : token.text == "}" ? -1 : 0;
  }
  if (depth > 0) Fail("a brace is not closed");
}

}  // namespace baton::ptx
