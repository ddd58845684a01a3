#include "grammar/agreement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "grammar/grammar_limits.h"

namespace baton::grammar {
namespace {

using Pair = std::pair<int32_t, int32_t>;

// Adds the pairs of different places that one more byte leads to from a pair. False when the byte makes a difference.
bool StepBoth(ParseStates& states, const Pair& pair, absl::flat_hash_set<Pair>& seen, std::vector<Pair>& next,
              int32_t& height) {
  for (const uint8_t byte : states.byte_of_each_class()) {
    // It is always safe to answer that they agree no further.
    if (states.is_spent()) return false;
    const Pair to = {states.Step(pair.first, byte), states.Step(pair.second, byte)};
    if ((to.first == ParseStates::kDead) != (to.second == ParseStates::kDead)) return false;
    if (to.second == ParseStates::kDead) continue;
    if (states.leaves(to.first) != states.leaves(to.second)) return false;
    height = std::max(height, states.height(to.second));
    if (to.first != to.second && seen.insert(to).second) next.push_back(to);
  }
  return true;
}

}  // namespace

Agreement Agree(ParseStates& states, int32_t first, int32_t second, int32_t most_bytes) {
  Agreement agreement;
  absl::flat_hash_set<Pair> seen = {{first, second}};
  std::vector<Pair> front = {{first, second}};
  std::vector<Pair> next;
  for (; agreement.bytes < most_bytes && seen.size() <= kMaxComparedPairs; ++agreement.bytes) {
    next.clear();
    int32_t height = agreement.height;
    for (const Pair& pair : front) {
      if (!StepBoth(states, pair, seen, next, height)) return agreement;
    }
    agreement.height = height;
    front.swap(next);
  }
  return agreement;
}

}  // namespace baton::grammar
