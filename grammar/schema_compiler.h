// Turns a JSON Schema into rules over bytes.
#ifndef BATON_GRAMMAR_SCHEMA_COMPILER_H_
#define BATON_GRAMMAR_SCHEMA_COMPILER_H_

#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grammar/compile_budget.h"
#include "grammar/flat_schema.h"
#include "grammar/json_rules.h"
#include "grammar/rule_graph.h"
#include "grammar/schema_reader.h"
#include "grammar/schema_source.h"
#include "grammar/schema_strings.h"

namespace baton::grammar {

// Values are written in one order of members and with the white space of json_rules.h; otherwise every value that
// satisfies the schema can be written, and no other. One use. The others must outlive it.
class SchemaCompiler {
 public:
  SchemaCompiler(SchemaSource* source, RuleGraph* graph, CompileBudget* budget)
      : source_(*source),
        graph_(*graph),
        budget_(*budget),
        reader_(source, budget),
        rules_(graph),
        strings_(graph, &rules_, budget) {}

  // The rule of the whole schema.
  absl::StatusOr<int32_t> Run();

 private:
  // These add what is allowed between two states of the graph.
  absl::Status AddTerm(SchemaTerm term, int32_t from, int32_t to, bool is_shared = false);
  absl::Status AddNodes(SchemaNodes nodes, int32_t from, int32_t to, bool is_shared = false) {
    return AddTerm({std::move(nodes), {}}, from, to, is_shared);
  }
  absl::Status AddBody(const SchemaTerm& term, const FlatSchema& schema, int32_t from, int32_t to);
  absl::Status AddChoice(const SchemaTerm& term, const FlatSchema& schema, int32_t from, int32_t to);
  absl::Status AddValues(const FlatSchema& schema, int32_t from, int32_t to);
  absl::Status AddTypes(const FlatSchema& schema, int32_t from, int32_t to);
  absl::Status AddNumber(const FlatSchema& schema, int32_t from, int32_t to);
  absl::Status AddArray(const FlatSchema& schema, int32_t from, int32_t to);
  absl::Status AddObject(const FlatSchema& schema, int32_t from, int32_t to);
  absl::Status AddMember(const FlatSchema::Member& member, int32_t from, int32_t to);
  absl::Status AddOtherMembers(const FlatSchema& schema, const std::vector<FlatSchema::Member>& members, int32_t from,
                               int32_t more);

  // The rule of a term, which is filled later.
  int32_t RuleOf(const SchemaTerm& term);
  // Refuses branches of a oneOf of which two may hold together.
  absl::Status CheckDisjoint(const SchemaTerm& term, const FlatSchema::Choice& choice);
  absl::StatusOr<bool> AreDisjoint(const FlatSchema& a, const FlatSchema& b);
  static SchemaTerm Decide(const SchemaTerm& term, const FlatSchema& schema, const FlatSchema::Choice& choice,
                           const JsonValue& branch);
  absl::Status Check() const;

  SchemaSource& source_;
  RuleGraph& graph_;
  CompileBudget& budget_;
  SchemaReader reader_;
  JsonRules rules_;
  SchemaStrings strings_;
  absl::flat_hash_map<SchemaTerm, int32_t> rule_of_;
  std::deque<std::pair<SchemaTerm, int32_t>> unfilled_;
  int num_terms_ = 0;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_SCHEMA_COMPILER_H_
