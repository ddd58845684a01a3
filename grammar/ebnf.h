// Grammars in the notation of llama.cpp's GBNF, which is also that of XGrammar.
#ifndef BATON_GRAMMAR_EBNF_H_
#define BATON_GRAMMAR_EBNF_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "grammar/rule_graph.h"

namespace baton::grammar {

// Adds the rules to the graph, and returns the one that is named root. INVALID_ARGUMENT for a text that is malformed or
// not UTF-8, saying where, or that lacks a rule. UNIMPLEMENTED for what is not supported, RESOURCE_EXHAUSTED beyond a
// limit. A rule that begins with itself in one of its own alternatives becomes a loop; other left recursion is found
// later, by BuildForm.
absl::StatusOr<int32_t> AddEbnf(std::string_view text, RuleGraph* graph);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_EBNF_H_
