// How far two places in a grammar are alike. Most places of a counted repeat, such as the lengths of a string with a
// maxLength, differ only for tokens that are longer than what is left, so the mask of one is nearly that of another.
#ifndef BATON_GRAMMAR_AGREEMENT_H_
#define BATON_GRAMMAR_AGREEMENT_H_

#include <cstdint>

#include "grammar/parse_states.h"

namespace baton::grammar {

struct Agreement {
  // A text of this many bytes or fewer leads on from both configurations or from neither, and both or neither then
  // leave their rules.
  int32_t bytes = 0;
  // At least the height, as in ParseStates, of all that these bytes lead to from the second one, where that is not what
  // they lead to from the first one as well.
  int32_t height = 0;
};

// Compares two configurations. Looks no further than `most_bytes`, and at no more than kMaxComparedPairs pairs of
// places on the way, so that the answer may be less than the truth. May add configurations, and drops none.
Agreement Agree(ParseStates& states, int32_t first, int32_t second, int32_t most_bytes);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_AGREEMENT_H_
