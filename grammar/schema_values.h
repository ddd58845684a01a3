// Which of the values that a schema names the rest of it allows.
#ifndef BATON_GRAMMAR_SCHEMA_VALUES_H_
#define BATON_GRAMMAR_SCHEMA_VALUES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "grammar/automaton.h"
#include "grammar/flat_schema.h"
#include "grammar/schema_strings.h"

namespace baton::grammar {

// The schema and the strings must outlive it. One thread.
class SchemaValues {
 public:
  SchemaValues(const FlatSchema& schema, SchemaStrings* strings) : schema_(schema), strings_(*strings) {}

  // UNIMPLEMENTED for an array or an object beside keywords about such.
  absl::StatusOr<bool> Allows(const JsonValue& value);

 private:
  absl::StatusOr<bool> AllowsString(const JsonValue& value);
  absl::StatusOr<bool> AllowsNumber(const JsonValue& value) const;

  const FlatSchema& schema_;
  SchemaStrings& strings_;
  std::optional<Automaton> content_;  // Of strings with patterns or formats, once it is needed.
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_SCHEMA_VALUES_H_
