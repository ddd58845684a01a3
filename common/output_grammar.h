// What the output of a request must look like, as its client wrote it. grammar/ compiles it.
#ifndef BATON_COMMON_OUTPUT_GRAMMAR_H_
#define BATON_COMMON_OUTPUT_GRAMMAR_H_

#include <cstdint>
#include <string>

namespace baton {

// kJsonObject: any JSON object; the text is empty.
// kJsonSchema: a JSON Schema.
// kRegex: a regular expression, which the whole output matches.
// kChoice: a JSON array of strings, one of which is the output.
// kEbnf: a grammar whose rules look like `root ::= "yes" | "no"`, as in the GBNF of llama.cpp.
enum class GrammarKind : uint8_t { kNone, kJsonObject, kJsonSchema, kRegex, kChoice, kEbnf };

struct OutputGrammar {
  GrammarKind kind = GrammarKind::kNone;
  std::string text;

  bool empty() const { return kind == GrammarKind::kNone; }
  friend bool operator==(const OutputGrammar&, const OutputGrammar&) = default;
};

}  // namespace baton

#endif  // BATON_COMMON_OUTPUT_GRAMMAR_H_
