// What the whole output of a request has to match. Plain data, which the grammar library compiles (grammar/grammar.h).
#ifndef BATON_COMMON_OUTPUT_GRAMMAR_H_
#define BATON_COMMON_OUTPUT_GRAMMAR_H_

#include <cstdint>
#include <string>
#include <vector>

namespace baton {

enum class GrammarKind : uint8_t { kNone, kJsonObject, kJsonSchema, kRegex, kChoice, kEbnf };

struct OutputGrammar {
  GrammarKind kind = GrammarKind::kNone;
  // Of kJsonSchema the schema, of kRegex the expression, of kChoice a JSON array of strings, of kEbnf the grammar.
  // Empty for the other kinds.
  std::string text = {};

  bool empty() const { return kind == GrammarKind::kNone; }

  friend bool operator==(const OutputGrammar&, const OutputGrammar&) = default;
};

// kChoice of these texts, which are UTF-8.
OutputGrammar ChoiceGrammar(const std::vector<std::string>& texts);

}  // namespace baton

#endif  // BATON_COMMON_OUTPUT_GRAMMAR_H_
