// Regular expressions as JSON Schema writes them (ECMA 262), over Unicode characters, as far as an automaton can decide
// them: no lookaround, no backreferences, no word boundaries, and anchors at the ends alone.
#ifndef BATON_GRAMMAR_REGEX_H_
#define BATON_GRAMMAR_REGEX_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "grammar/expression.h"

namespace baton::grammar {

struct Regex {
  // One of the alternatives outside of all groups.
  struct Branch {
    Expression body;
    bool has_begin_anchor = false;
    bool has_end_anchor = false;
  };
  std::vector<Branch> branches;

  // Texts that match as a whole.
  Expression WholeMatch() const;
  // Texts that have a match somewhere.
  Expression Search() const;
};

// `what` names the expression in messages. INVALID_ARGUMENT for one that is malformed or not UTF-8, UNIMPLEMENTED
// naming what is not supported, RESOURCE_EXHAUSTED beyond a limit.
absl::StatusOr<Regex> ParseRegex(std::string_view text, std::string_view what);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_REGEX_H_
