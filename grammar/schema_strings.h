// Strings with lengths, patterns and formats.
#ifndef BATON_GRAMMAR_SCHEMA_STRINGS_H_
#define BATON_GRAMMAR_SCHEMA_STRINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grammar/automaton.h"
#include "grammar/code_points.h"
#include "grammar/expression.h"
#include "grammar/flat_schema.h"
#include "grammar/json_rules.h"
#include "grammar/rule_graph.h"

namespace baton::grammar {

// The others must outlive it. One thread.
class SchemaStrings {
 public:
  SchemaStrings(RuleGraph* graph, JsonRules* rules, CompileBudget* budget)
      : graph_(*graph), rules_(*rules), budget_(*budget) {}

  // Adds a string that the schema allows. Strings with patterns or formats have one spelling each.
  absl::Status Add(const FlatSchema& schema, int32_t from, int32_t to);
  // What is between the quotes, spelled in the one way or as it is.
  absl::StatusOr<Automaton> Content(const FlatSchema& schema, Spelling spelling);

  // A key that is none of these, from behind its first quote: adds it between `from` and `to`, with its last quote.
  absl::Status AddOtherKey(const std::vector<FlatSchema::Member>& members, int32_t from, int32_t to);

 private:
  absl::StatusOr<Automaton> ToAutomaton(const Expression& expression, Spelling spelling);

  RuleGraph& graph_;
  JsonRules& rules_;
  CompileBudget& budget_;
  absl::flat_hash_map<std::string, int32_t> rules_by_key_;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_SCHEMA_STRINGS_H_
