#include "worker/grammar_constraints.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/status.h"
#include "grammar/grammar.h"
#include "grammar/grammar_matcher.h"

namespace baton::worker {
namespace {

class GrammarConstraint final : public engine::TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<grammar::TokenMasks> masks) : matcher_(std::move(masks)) {}

  bool Accept(int32_t token) override { return matcher_.Accept(token); }
  engine::AllowedTokens Allowed() override {
    // The masks of a step are all read at its end, when those of other sequences have been looked up.
    const grammar::TokenMask mask = matcher_.mask();
    words_.assign(mask.words.begin(), mask.words.end());
    return {.words = words_, .only = mask.only};
  }

 private:
  grammar::GrammarMatcher matcher_;
  std::vector<uint64_t> words_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<engine::TokenConstraint>> GrammarConstraints::Make(const OutputGrammar& source) {
  // Where an output must end there would be no token to choose.
  if (vocabulary_->eos_ids().empty()) return absl::UnimplementedError("grammar: the model has no end token");
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<grammar::TokenMasks> masks, MasksOf(source));
  return std::make_unique<GrammarConstraint>(std::move(masks));
}

absl::StatusOr<std::shared_ptr<grammar::TokenMasks>> GrammarConstraints::MasksOf(const OutputGrammar& source) {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) { return each.source == source; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return found->masks;
  }
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<const grammar::Grammar> grammar, grammar::CompileGrammar(source));
  auto masks = std::make_shared<grammar::TokenMasks>(std::move(grammar), vocabulary_);
  if (kept_.size() == kMaxKept) kept_.pop_back();
  kept_.push_front({.source = source, .masks = masks});
  return masks;
}

}  // namespace baton::worker
