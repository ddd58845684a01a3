// Values that satisfy the schemas of RandomRootSchema, of many kinds: what each of them allows is drawn on purpose, so
// that also narrow ones have some.
#ifndef BATON_GRAMMAR_TESTING_VALID_VALUE_H_
#define BATON_GRAMMAR_TESTING_VALID_VALUE_H_

#include <optional>

#include "common/random.h"
#include "nlohmann/json.hpp"

namespace baton::grammar {

// A value for which Satisfies holds, its members named so that their alphabetical order is that of the grammar. Nothing
// where a bounded number of tries found none.
std::optional<nlohmann::json> ValidValue(RandomSource& random, const nlohmann::json& root);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_TESTING_VALID_VALUE_H_
