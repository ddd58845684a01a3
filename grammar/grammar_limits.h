// The named bounds of grammars. A source beyond one of the first group is refused with RESOURCE_EXHAUSTED.
#ifndef BATON_GRAMMAR_GRAMMAR_LIMITS_H_
#define BATON_GRAMMAR_GRAMMAR_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "common/limits.h"

namespace baton::grammar {

// The text of a source, how deep its brackets nest, and how many values a JSON text has.
inline constexpr size_t kMaxSourceBytes = kMaxGrammarBytes;
inline constexpr int kMaxSourceNesting = 64;
inline constexpr int kMaxSourceValues = 1 << 14;
// The largest count of a repeat: {m,n}, minLength, maxLength, minItems, maxItems.
inline constexpr int kMaxRepeats = 1 << 14;
// Digits of a number that bounds others, after its exponent has been resolved.
inline constexpr int kMaxBoundDigits = 400;
// States of the automata of all rules, before and after they are made deterministic, and the steps that compiling
// takes. The steps keep the time of a hostile source below 100 ms.
inline constexpr int kMaxGraphStates = 1 << 17;
inline constexpr int kMaxFormStates = 1 << 15;
inline constexpr int64_t kMaxCompileSteps = 1 << 20;
// Alternatives of a schema: combinations of the branches of its anyOf and oneOf.
inline constexpr int kMaxSchemaTerms = 1 << 12;

// Rules within rules of an output. What would nest deeper is not legal, so an output that has come this deep can only
// close what is open.
inline constexpr int kMaxStackDepth = 128;
// Ways to read the same output so far. Of more, the shallowest stay. Each way that stays can be completed.
inline constexpr int kMaxStacks = 512;
// Positions that are looked at after one byte to find these ways.
inline constexpr int kMaxClosure = 4096;
// From how many masks the next one may be derived, how many bytes two places must have in common for it and how many
// are asked for, and the pairs of places that are looked at to find out. Most tokens have less than the bytes asked
// for.
inline constexpr size_t kMaxMaskReferences = 4;
inline constexpr int32_t kMinAgreedBytes = 4;
inline constexpr int32_t kMaxAgreedBytes = 16;
inline constexpr size_t kMaxComparedPairs = 256;
// What TokenMasks keeps of one grammar. Beyond it all is dropped but the states of matchers, and computed again.
inline constexpr size_t kMaxMaskCacheBytes = size_t{8} << 20;

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_GRAMMAR_LIMITS_H_
