// Reads the keywords of JSON Schema, draft 2020-12, and the spellings of draft 7.
#ifndef BATON_GRAMMAR_SCHEMA_READER_H_
#define BATON_GRAMMAR_SCHEMA_READER_H_

#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grammar/compile_budget.h"
#include "grammar/flat_schema.h"
#include "grammar/schema_source.h"

namespace baton::grammar {

// Schemas that a value must satisfy all, while some anyOf and oneOf of theirs have been decided: the branch is among
// the nodes.
struct SchemaTerm {
  SchemaNodes nodes;
  SchemaNodes decided;  // The lists of branches.

  friend bool operator==(const SchemaTerm&, const SchemaTerm&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SchemaTerm& term) {
    return H::combine(std::move(h), term.nodes, term.decided);
  }
};

// The source and the budget must outlive it. One thread.
class SchemaReader {
 public:
  SchemaReader(SchemaSource* source, CompileBudget* budget) : source_(*source), budget_(*budget) {}

  // Puts what a schema refers to in place of one that does nothing else, and leaves out those that ask for nothing.
  // True when a $ref was followed.
  absl::StatusOr<bool> Simplify(SchemaTerm* term);
  // INVALID_ARGUMENT for a keyword whose value is malformed, UNIMPLEMENTED for one that is not supported.
  absl::StatusOr<FlatSchema> Flatten(const SchemaTerm& term);

 private:
  using Handler = absl::Status (SchemaReader::*)(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  static const absl::flat_hash_map<std::string_view, Handler>& Handlers();

  absl::Status ReadNode(const JsonValue& node, FlatSchema* schema);
  void Visit(const JsonValue* node);

  absl::Status ReadType(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadEnum(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadConst(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadRef(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadAllOf(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadAnyOf(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadOneOf(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadMinimum(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadMaximum(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadExclusiveMinimum(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadExclusiveMaximum(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadMultipleOf(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadMinLength(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadMaxLength(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadMinItems(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadMaxItems(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadPattern(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadFormat(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status ReadRequired(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  // Of `properties` and `prefixItems`, whose nodes ReadNode joins with their neighbours.
  absl::Status CheckObject(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status CheckArray(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status CheckSchemaUri(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status CheckId(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  // What asks for nothing where it is false, {} or 0, and is not supported otherwise; and the other way round.
  absl::Status RefuseUnlessEmpty(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status RefuseUnlessTrue(const JsonValue& node, const JsonValue& value, FlatSchema* schema);
  absl::Status Ignore(const JsonValue& node, const JsonValue& value, FlatSchema* schema);

  absl::StatusOr<NumberBounds::Bound> ReadBound(const JsonValue& node, const JsonValue& value, bool is_exclusive);
  absl::StatusOr<int64_t> ReadCount(const JsonValue& node, const JsonValue& value);
  absl::Status CheckBranches(const JsonValue& node, const JsonValue& value);
  void JoinStructures(const JsonValue& node, FlatSchema* schema);

  SchemaSource& source_;
  CompileBudget& budget_;
  // Of the call in progress.
  std::string_view keyword_;
  const SchemaTerm* term_ = nullptr;
  SchemaNodes todo_;
  absl::flat_hash_set<const JsonValue*> seen_;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_SCHEMA_READER_H_
