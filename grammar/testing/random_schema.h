// Schemas and values by chance. Members are named so that their alphabetical order is that of the grammar.
#ifndef BATON_GRAMMAR_TESTING_RANDOM_SCHEMA_H_
#define BATON_GRAMMAR_TESTING_RANDOM_SCHEMA_H_

#include <string>

#include "common/random.h"
#include "nlohmann/json.hpp"

namespace baton::grammar {

// Up to `depth` levels of arrays and objects, beside recursion.
nlohmann::json RandomSchema(RandomSource& random, int depth);

// A schema with a recursive definition in its $defs, to which its parts may refer.
nlohmann::json RandomRootSchema(RandomSource& random);

// A value that often satisfies the schema, and often almost does.
nlohmann::json RandomValue(RandomSource& random, const nlohmann::json& schema, const nlohmann::json& root, int depth);

// The value as the grammar spells it, with the spaces that may be left out by chance.
std::string SpellValue(RandomSource& random, const nlohmann::json& value);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_TESTING_RANDOM_SCHEMA_H_
