// Cuts a template into tokens, with Jinja's rules for white space as transformers sets them (trim_blocks,
// lstrip_blocks).
#ifndef BATON_TOKENIZER_JINJA_LEXER_H_
#define BATON_TOKENIZER_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::tokenizer::jinja {

enum class TokenKind : uint8_t {
  kText,
  kPrintBegin,  // {{
  kPrintEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,
  kInt,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;  // strings have their escapes resolved
  int line;          // from 1
  int64_t int_value = 0;
  double float_value = 0;
};

// The result always ends with kEnd. As in Jinja, line ends become \n, and one at the very end is dropped. `text` must
// be valid UTF-8. INVALID_ARGUMENT names the line of an error.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_LEXER_H_
