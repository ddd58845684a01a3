#include "grammar/regex_escapes.h"

#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::grammar {
namespace {

CodePointSet Digits() { return {{'0', '9'}}; }

CodePointSet WordCharacters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }

// WhiteSpace and LineTerminator of ECMA 262.
CodePointSet Blanks() {
  return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

std::optional<CodePointSet> ClassOf(char letter) {
  switch (letter) {
    case 'd':
      return Digits();
    case 'D':
      return Digits().Complement();
    case 'w':
      return WordCharacters();
    case 'W':
      return WordCharacters().Complement();
    case 's':
      return Blanks();
    case 'S':
      return Blanks().Complement();
    default:
      return std::nullopt;
  }
}

std::optional<uint32_t> ControlOf(char letter) {
  switch (letter) {
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return std::nullopt;
  }
}

absl::StatusOr<uint32_t> ReadBracedHex(SourceReader* reader) {
  int digits = 0;
  while (absl::ascii_isxdigit(static_cast<unsigned char>(reader->Peek(digits)))) ++digits;
  if (digits == 0 || digits > 6) return reader->Malformed("\\u{ } has 1 to 6 hexadecimal digits");
  BATON_ASSIGN_OR_RETURN(const uint32_t code_point, reader->ReadHex(digits));
  if (code_point > kMaxCodePoint) return reader->Malformed("there is no such character");
  if (!reader->Accept("}")) return reader->Malformed("\\u{ has no }");
  return code_point;
}

// Behind \u. A character beyond the first 2^16 may be written as two surrogates.
absl::StatusOr<uint32_t> ReadUnicode(SourceReader* reader) {
  if (reader->Accept("{")) return ReadBracedHex(reader);
  BATON_ASSIGN_OR_RETURN(const uint32_t first, reader->ReadHex(4));
  if (first < 0xD800 || first > 0xDFFF) return first;
  if (first <= 0xDBFF && reader->Accept("\\u")) {
    BATON_ASSIGN_OR_RETURN(const uint32_t second, reader->ReadHex(4));
    if (second >= 0xDC00 && second <= 0xDFFF) return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }
  return reader->Malformed("a surrogate has no other half");
}

}  // namespace

absl::StatusOr<CodePointSet> ReadRegexEscape(SourceReader* reader, bool in_class) {
  reader->Accept("\\");
  if (reader->at_end()) return reader->Malformed("a backslash has nothing behind it");
  const char letter = reader->Peek();
  if (static_cast<unsigned char>(letter) >= 0x80 || letter == '\0') {
    return reader->Malformed("this character needs no backslash");
  }
  if (letter >= '1' && letter <= '9') return reader->Unsupported("a backreference");
  if (!in_class && (letter == 'b' || letter == 'B')) return reader->Unsupported("a word boundary");
  if (letter == 'p' || letter == 'P') return reader->Unsupported("a Unicode property");
  if (letter == 'k') return reader->Unsupported("a backreference");
  reader->Accept(std::string_view(&letter, 1));
  if (auto set = ClassOf(letter)) return *std::move(set);
  if (const auto control = ControlOf(letter)) return CodePointSet(*control);
  if (letter == 'b') return CodePointSet('\b');
  if (letter == '0') {
    if (absl::ascii_isdigit(static_cast<unsigned char>(reader->Peek()))) return reader->Unsupported("an octal escape");
    return CodePointSet(0);
  }
  if (letter == 'x' || letter == 'u') {
    BATON_ASSIGN_OR_RETURN(const uint32_t character, letter == 'x' ? reader->ReadHex(2) : ReadUnicode(reader));
    return CodePointSet(character);
  }
  if (absl::ascii_isalnum(static_cast<unsigned char>(letter))) {
    return reader->Unsupported(absl::StrCat("the escape \\", std::string(1, letter)));
  }
  return CodePointSet(static_cast<uint32_t>(letter));
}

CodePointSet AnyButLineEnds() { return CodePointSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).Complement(); }

}  // namespace baton::grammar
