// The constraints of a worker's sequences, from the grammars of their requests. The grammars used last are kept
// compiled, with the states and masks that were found so far, for all sequences that have them.
#ifndef BATON_WORKER_GRAMMAR_CONSTRAINTS_H_
#define BATON_WORKER_GRAMMAR_CONSTRAINTS_H_

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/output_grammar.h"
#include "engine/token_constraint.h"
#include "grammar/token_masks.h"
#include "grammar/vocabulary.h"

namespace baton::worker {

// Used by the engine's thread, as are the constraints that it makes.
class GrammarConstraints final : public engine::ConstraintSource {
 public:
  static constexpr size_t kMaxKept = 16;

  // The model's.
  explicit GrammarConstraints(std::shared_ptr<const grammar::Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)) {}

  absl::StatusOr<std::unique_ptr<engine::TokenConstraint>> Make(const OutputGrammar& source) override;

 private:
  struct Kept {
    OutputGrammar source;
    std::shared_ptr<grammar::TokenMasks> masks;
  };

  absl::StatusOr<std::shared_ptr<grammar::TokenMasks>> MasksOf(const OutputGrammar& source);

  const std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  // Used last first.
  std::list<Kept> kept_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAMMAR_CONSTRAINTS_H_
