#include "tests/ptx/lexer.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

bool BeginsWord(char c) { return absl::ascii_isalpha(c) || c == '_' || c == '$' || c == '%'; }
bool ContinuesWord(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '%'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (SkipSpace()) {
      if (!Next()) return absl::InvalidArgumentError(Text("line ", line_, ": a string has no end"));
    }
    tokens_.push_back({Token::Kind::kEnd, {}, line_});
    return std::move(tokens_);
  }

 private:
  bool At(std::string_view mark) const { return text_.substr(at_, mark.size()) == mark; }

  // False at the end.
  bool SkipSpace() {
    while (at_ < text_.size()) {
      if (At("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (At("/*")) {
        const size_t end = std::min(text_.find("*/", at_), text_.size() - 2) + 2;
        line_ += static_cast<int>(std::count(text_.begin() + at_, text_.begin() + end, '\n'));
        at_ = end;
      } else if (absl::ascii_isspace(text_[at_]) || text_[at_] == '\0') {
        line_ += text_[at_++] == '\n' ? 1 : 0;
      } else {
        return true;
      }
    }
    return false;
  }

  void Push(Token::Kind kind, size_t begin) { tokens_.push_back({kind, text_.substr(begin, at_ - begin), line_}); }

  // Consumes letters, and dots and double colons between them.
  void Word() {
    while (at_ < text_.size()) {
      const bool dot = text_[at_] == '.' && at_ + 1 < text_.size() && ContinuesWord(text_[at_ + 1]);
      if (!dot && !At("::") && !ContinuesWord(text_[at_])) return;
      at_ += At("::") ? 2 : 1;
    }
  }

  bool Next() {
    const size_t begin = at_;
    const char c = text_[at_++];
    if (BeginsWord(c)) {
      Word();
      Push(Token::Kind::kWord, begin);
    } else if (c == '.') {
      while (at_ < text_.size() && ContinuesWord(text_[at_])) ++at_;
      Push(Token::Kind::kDirective, begin);
    } else if (absl::ascii_isdigit(c)) {
      while (at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '.')) ++at_;
      Push(Token::Kind::kNumber, begin);
    } else if (c == '"') {
      const size_t end = text_.find('"', at_);
      if (end == std::string_view::npos) return false;
      tokens_.push_back({Token::Kind::kString, text_.substr(at_, end - at_), line_});
      at_ = end + 1;
    } else {
      Push(Token::Kind::kMark, begin);
    }
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokens(std::string_view text) { return Lexer(text).Run(); }

}  // namespace baton::ptx
