// One output, token by token, and what its grammar allows next.
#ifndef BATON_GRAMMAR_GRAMMAR_MATCHER_H_
#define BATON_GRAMMAR_GRAMMAR_MATCHER_H_

#include <cstdint>
#include <memory>

#include "grammar/token_masks.h"

namespace baton::grammar {

// What it answers depends on the grammar, the vocabulary and the accepted tokens alone, so that an output can be
// replayed anywhere. A copy goes its own way. On the thread of its TokenMasks.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<TokenMasks> masks);
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher(GrammarMatcher&& other) noexcept;
  GrammarMatcher& operator=(GrammarMatcher other) noexcept;
  ~GrammarMatcher();

  // False for a token that is not legal: nothing changes then. A token that ends the output is legal where the output
  // is complete or stuck. After it only such tokens are legal.
  bool Accept(int32_t token);
  // Whether mask() is a look into a table now. Where it is not, the mask is computed as far as `steps` go, which are
  // spent: for each, a node of the vocabulary is looked at, or an eighth of a way to read on.
  bool FindMask(int64_t& steps) { return masks_->TryMaskOf(place_, steps) != nullptr; }
  // Which tokens are legal. Valid until the next call of any matcher of the same TokenMasks. It is never empty, unless
  // the vocabulary has no token that ends an output.
  TokenMask mask();
  // Whether the output may end here.
  bool is_complete() const { return masks_->is_complete(place_); }
  // Whether the vocabulary has no token that goes on here although the output is not complete, so that the mask allows
  // the tokens that end it. A vocabulary that has every byte as a token is never stuck.
  bool is_stuck();

 private:
  // Null in what was moved from, which may only be assigned to or destroyed.
  std::shared_ptr<TokenMasks> masks_;
  int32_t place_;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_GRAMMAR_MATCHER_H_
