// Words of PTX.
#ifndef BATON_TESTS_PTX_LEXER_H_
#define BATON_TESTS_PTX_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::ptx {

struct Token {
  enum class Kind : uint8_t { kWord, kDirective, kNumber, kString, kMark, kEnd };
  Kind kind;
  // A word keeps its dots; a directive begins with one; a string has no quotes; a mark is one character.
  std::string_view text;
  int line;
};

// The tokens point into `text`. The last is kEnd. Comments are left out.
absl::StatusOr<std::vector<Token>> Tokens(std::string_view text);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_LEXER_H_
