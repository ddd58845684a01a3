// Whether a grammar allows a value, whatever the order of its members: a text of JSON has one, and a value has none.
#ifndef BATON_GRAMMAR_TESTING_ANY_ORDER_H_
#define BATON_GRAMMAR_TESTING_ANY_ORDER_H_

#include "grammar/grammar.h"
#include "grammar/json_value.h"

namespace baton::grammar {

// An object of more members is tried in the order that it has alone.
inline constexpr size_t kMaxOrderedMembers = 12;

// Tries every order of the members, without spaces, numbers and strings as SpellNumber and SpellJsonString spell them.
bool AllowsInAnyOrder(const Grammar& grammar, const JsonValue& value);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_TESTING_ANY_ORDER_H_
