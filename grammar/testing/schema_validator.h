// Whether a value satisfies a JSON Schema, decided by looking at the value: nothing is shared with the compiler, so
// that each checks the other.
#ifndef BATON_GRAMMAR_TESTING_SCHEMA_VALIDATOR_H_
#define BATON_GRAMMAR_TESTING_SCHEMA_VALIDATOR_H_

#include "nlohmann/json.hpp"

namespace baton::grammar {

// Knows the keywords of RandomSchema. Patterns and names are ASCII. References are "#/$defs/NAME" of `root`.
bool Satisfies(const nlohmann::json& value, const nlohmann::json& schema, const nlohmann::json& root);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_TESTING_SCHEMA_VALIDATOR_H_
