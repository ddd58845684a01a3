#include "tokenizer/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/utf8.h"
#include "tokenizer/jinja/text.h"

namespace baton::tokenizer::jinja {
namespace {

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNameChar(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string NormalizeLineEnds(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (pos_ < source_.size()) BATON_RETURN_IF_ERROR(LexTextAndTag());
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("chat template, line ", line_, ": ", ToAbsl(what)));
  }

  std::string_view Rest() const { return std::string_view(source_).substr(pos_); }
  bool At(std::string_view s) const { return Rest().substr(0, s.size()) == s; }

  void Advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + pos_, source_.begin() + pos_ + bytes, '\n'));
    pos_ += bytes;
  }

  void SkipSpaces() { Advance(Rest().size() - StripLeft(Rest()).size()); }

  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Cuts the end of the text as the tag after it demands: `{%-` takes all white space before it, and a plain block tag
  // takes its own indentation if nothing else stands before it on the line.
  void AddText(std::string_view text, char sign, bool is_block) {
    if (sign == '-') {
      text = StripRight(text);
    } else if (sign != '+' && is_block) {
      const size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((line_begin > 0 || line_starting_) && StripRight(text.substr(line_begin)).empty()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) Add(TokenKind::kText, std::string(text));
  }

  absl::Status LexTextAndTag() {
    size_t tag = pos_;
    while (tag < source_.size()) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) tag = source_.size();
      if (tag == source_.size()) break;
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const std::string_view text = Rest().substr(0, tag - pos_);
    if (tag == source_.size()) {
      if (!text.empty()) Add(TokenKind::kText, std::string(text));
      Advance(text.size());
      return absl::OkStatus();
    }
    const char type = source_[tag + 1];
    const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool has_sign = after == '-' || after == '+';
    AddText(text, has_sign ? after : '\0', type != '{');
    Advance(text.size() + 2 + has_sign);
    line_starting_ = false;
    if (type == '#') return LexComment();
    if (type == '%' && IsRawBegin()) return LexRaw();
    Add(type == '{' ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "");
    return LexTag(type == '{' ? "}}" : "%}", type == '{' ? TokenKind::kPrintEnd : TokenKind::kBlockEnd);
  }

  // Skips white space after a block or a comment: all of it after `-`, otherwise one line end.
  void TrimAfterBlock(char sign) {
    const size_t begin = pos_;
    if (sign == '-') {
      SkipSpaces();
    } else if (sign != '+' && At("\n")) {
      Advance(1);
    }
    line_starting_ = pos_ > begin && source_[pos_ - 1] == '\n';
  }

  absl::Status LexComment() {
    const size_t end = source_.find("#}", pos_);
    if (end == std::string::npos) return Error("a comment {# is not closed");
    const char before = end > pos_ ? source_[end - 1] : '\0';
    Advance(end + 2 - pos_);
    TrimAfterBlock(before);
    return absl::OkStatus();
  }

  bool IsRawBegin() const {
    std::string_view rest = StripLeft(Rest());
    if (rest.substr(0, 3) != "raw") return false;
    rest = StripLeft(rest.substr(3));
    return rest.substr(0, 2) == "%}" || rest.substr(0, 3) == "-%}";
  }

  absl::Status LexRaw() {
    const size_t begin_end = source_.find("%}", pos_);
    const bool strip = source_[begin_end - 1] == '-';
    Advance(begin_end + 2 - pos_);
    if (strip) SkipSpaces();
    line_starting_ = source_[pos_ - 1] == '\n';
    for (size_t tag = source_.find("{%", pos_); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
      size_t i = tag + 2;
      const char sign = i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i++] : '\0';
      std::string_view rest = StripLeft(std::string_view(source_).substr(i));
      if (rest.substr(0, 6) != "endraw") continue;
      rest = StripLeft(rest.substr(6));
      const char end_sign = !rest.empty() && (rest[0] == '-' || rest[0] == '+') ? rest[0] : '\0';
      if (end_sign != '\0') rest.remove_prefix(1);
      if (rest.substr(0, 2) != "%}") continue;
      AddText(Rest().substr(0, tag - pos_), sign, /*is_block=*/true);
      Advance(source_.size() - rest.size() + 2 - pos_);
      TrimAfterBlock(end_sign);
      return absl::OkStatus();
    }
    return Error("{% raw %} is not closed");
  }

  absl::Status LexTag(std::string_view end, TokenKind end_kind) {
    std::string brackets;  // the closing brackets that must follow
    while (true) {
      SkipSpaces();
      if (pos_ >= source_.size()) return Error(absl::StrCat("the tag is not closed with ", ToAbsl(end)));
      if (brackets.empty()) {
        const char sign = Rest()[0];
        const bool has_sign = (sign == '-' || (sign == '+' && end == "%}")) && Rest().substr(1, 2) == end;
        if (has_sign || At(end)) {
          Add(end_kind, "");
          Advance(end.size() + has_sign);
          // Only blocks take the line end that follows them.
          TrimAfterBlock(has_sign ? sign : (end == "%}" ? '\0' : '+'));
          return absl::OkStatus();
        }
      }
      BATON_RETURN_IF_ERROR(LexExpressionToken(&brackets));
    }
  }

  absl::Status LexExpressionToken(std::string* brackets) {
    const char c = source_[pos_];
    if (IsNameStart(c)) {
      size_t bytes = 1;
      while (bytes < Rest().size() && IsNameChar(Rest()[bytes])) ++bytes;
      Add(TokenKind::kName, std::string(Rest().substr(0, bytes)));
      Advance(bytes);
      return absl::OkStatus();
    }
    if (IsDigit(c)) return LexNumber();
    if (c == '"' || c == '\'') return LexString(c);
    return LexOperator(brackets);
  }

  absl::Status LexOperator(std::string* brackets) {
    static constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                                      "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                                      "]",  "{",  "}",  ",",  ".",  ":",  "|"};
    for (const std::string_view op : kOperators) {
      if (!At(op)) continue;
      if (op == "(") brackets->push_back(')');
      if (op == "[") brackets->push_back(']');
      if (op == "{") brackets->push_back('}');
      if (op == ")" || op == "]" || op == "}") {
        if (brackets->empty() || brackets->back() != op[0]) return Error(absl::StrCat("unexpected '", ToAbsl(op), "'"));
        brackets->pop_back();
      }
      Add(TokenKind::kOperator, std::string(op));
      Advance(op.size());
      return absl::OkStatus();
    }
    size_t end = pos_;
    (void)NextCodePoint(source_, &end);
    return Error(absl::StrCat("unexpected character '", source_.substr(pos_, end - pos_), "'"));
  }

  absl::Status LexNumber() {
    const std::string_view rest = Rest();
    size_t bytes = 0;
    const auto digits = [&] {
      while (bytes < rest.size() && (IsDigit(rest[bytes]) || rest[bytes] == '_')) ++bytes;
    };
    digits();
    bool is_float = false;
    if (bytes + 1 < rest.size() && rest[bytes] == '.' && IsDigit(rest[bytes + 1])) {
      is_float = true;
      ++bytes;
      digits();
    }
    size_t exponent = bytes;
    if (exponent < rest.size() && (rest[exponent] == 'e' || rest[exponent] == 'E')) {
      ++exponent;
      if (exponent < rest.size() && (rest[exponent] == '+' || rest[exponent] == '-')) ++exponent;
      if (exponent < rest.size() && IsDigit(rest[exponent])) {
        is_float = true;
        bytes = exponent;
        digits();
      }
    }
    std::string text(rest.substr(0, bytes));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    Add(is_float ? TokenKind::kFloat : TokenKind::kInt, text);
    const bool parsed = is_float ? absl::SimpleAtod(text, &tokens_.back().float_value)
                                 : absl::SimpleAtoi(text, &tokens_.back().int_value);
    if (!parsed) return Error(absl::StrCat("the number ", text, " is too large"));
    Advance(bytes);
    return absl::OkStatus();
  }

  absl::Status LexString(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return Error("a string is not closed");
    std::string value;
    if (!Unescape(std::string_view(source_).substr(pos_ + 1, end - pos_ - 1), &value)) {
      return Error("a string has an escape sequence that names no character");
    }
    Add(TokenKind::kString, std::move(value));
    Advance(end + 1 - pos_);
    return absl::OkStatus();
  }

  // Resolves Python's escapes except \N{...}. An unknown escape stays as it is.
  static bool Unescape(std::string_view raw, std::string* out) {
    static constexpr std::pair<char, char> kSimple[] = {{'n', '\n'},  {'t', '\t'}, {'r', '\r'}, {'\\', '\\'},
                                                        {'\'', '\''}, {'"', '"'},  {'a', '\a'}, {'b', '\b'},
                                                        {'f', '\f'},  {'v', '\v'}};
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out->push_back(raw[i]);
        continue;
      }
      const char c = raw[++i];
      if (c == '\n') continue;
      const auto* simple = std::find_if(std::begin(kSimple), std::end(kSimple), [c](auto& e) { return e.first == c; });
      if (simple != std::end(kSimple)) {
        out->push_back(simple->second);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
        if (!AppendHex(raw.substr(i + 1, digits), digits, out)) return false;
        i += digits;
      } else if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t n = 0;
        for (; n < 3 && i + n < raw.size() && raw[i + n] >= '0' && raw[i + n] <= '7'; ++n) {
          code = code * 8 + static_cast<uint32_t>(raw[i + n] - '0');
        }
        AppendUtf8(code, out);
        i += n - 1;
      } else {
        out->push_back('\\');
        out->push_back(c);
      }
    }
    return true;
  }

  static bool AppendHex(std::string_view hex, size_t digits, std::string* out) {
    uint32_t code = 0;
    if (hex.size() != digits) return false;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (error != std::errc() || end != hex.data() + hex.size()) return false;
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    AppendUtf8(code, out);
    return true;
  }

  const std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  // Whether the tag before the text took a line end, so that the text begins a line.
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(NormalizeLineEnds(source)).Run(); }

}  // namespace baton::tokenizer::jinja
