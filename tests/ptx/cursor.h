// Reads tokens one after another and keeps the first error.
#ifndef BATON_TESTS_PTX_CURSOR_H_
#define BATON_TESTS_PTX_CURSOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tests/ptx/lexer.h"

namespace baton::ptx {

// A number of the text: an integer, or the bits of a float.
struct Number {
  enum class Kind : uint8_t { kInteger, kFloat32, kFloat64 } kind;
  uint64_t bits;
};

// After an error every read answers with an empty word, and AtEnd is true.
class Cursor {
 public:
  explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  // The first error stays.
  void Fail(std::string_view what, int line = 0);

  bool AtEnd() const { return !ok() || Peek().kind == Token::Kind::kEnd; }
  const Token& Peek(size_t ahead = 0) const;
  const Token& Next();
  bool Is(std::string_view text, size_t ahead = 0) const;
  // Consumes it where it comes next.
  bool Take(std::string_view text);
  void Expect(std::string_view text);
  std::string Word();
  Number TakeNumber();
  uint64_t Integer();
  // Consumes the rest of this line.
  void SkipLine();
  // Consumes from { to its }.
  void SkipBraces();

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  absl::Status status_;
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_CURSOR_H_
