// The constraints of a worker's sequences, from the grammars of their requests. A grammar is compiled once for all who
// have it, with the states and masks that were found so far; those used last are kept for jobs to come.
//
//   a grammar  | event                            | next      | actions
//   -----------+----------------------------------+-----------+---------------------------------------------------------
//   unknown    | Prepare                          | compiling | SideWork::Post
//   unknown,   | Make                             | ready     | compiles on the caller's time
//   compiling  |                                  |           |
//   compiling  | Prepare                          | compiling | -
//   compiling  | it is compiled, or cannot be     | ready     | -
//   compiling  | nobody has it any more           | unknown   | SideWork::Drop
//   ready      | Prepare, Make                    | ready     | Make keeps it
//   ready      | nobody has it any more, and      | unknown   | -
//              | kMaxKept others were used since  |           |
#ifndef BATON_WORKER_GRAMMAR_CONSTRAINTS_H_
#define BATON_WORKER_GRAMMAR_CONSTRAINTS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/output_grammar.h"
#include "engine/token_constraint.h"
#include "grammar/token_masks.h"
#include "grammar/vocabulary.h"
#include "worker/heavy_masks.h"
#include "worker/side_work.h"

namespace baton::worker {

// Used by the engine's thread, as are the constraints that it makes. It outlives these and what it prepares.
class GrammarConstraints final : public engine::ConstraintSource {
 public:
  static constexpr size_t kMaxKept = 16;
  // What an output's masks may take of the engine's thread at once, in the steps of GrammarMatcher::FindMask. Each
  // token gives back what a walk through the vocabulary takes. A mask beyond that is found beside the thread, and its
  // output waits for it.
  static constexpr int64_t kMaxMaskSteps = int64_t{1} << 20;

  // The model's. Nothing is prepared until PrepareBeside.
  explicit GrammarConstraints(std::shared_ptr<const grammar::Vocabulary> vocabulary);
  ~GrammarConstraints() override;

  // Before the first job. Grammars are compiled by one and masks that take long are found by the other, which may be
  // the same. Both outlive all that is prepared and made.
  void PrepareBeside(SideWork& compiles, SideWork& masks) {
    side_ = &compiles;
    mask_side_ = &masks;
  }

  // Ready when it is compiled, with the mask of an output's first token.
  std::shared_ptr<const engine::PreparedGrammar> Prepare(const OutputGrammar& source) override;
  absl::StatusOr<std::unique_ptr<engine::TokenConstraint>> Make(const OutputGrammar& source) override;

 private:
  using Masks = absl::StatusOr<std::shared_ptr<grammar::TokenMasks>>;
  // A grammar that somebody has.
  class Entry;
  class Constraint;
  // The text is the entry's own.
  using Key = std::pair<GrammarKind, std::string_view>;

  std::shared_ptr<Entry> EntryOf(const OutputGrammar& source);
  std::unique_ptr<HeavyMasks> MakeHeavy(const Entry& entry);
  void Compile(Entry& entry);
  // `number` may be that of a grammar which nobody has any more.
  void OnCompiled(uint64_t number, Masks masks);
  void Forget(const Entry& entry);
  void Keep(std::shared_ptr<Entry> entry);

  const std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  SideWork* side_ = nullptr;
  SideWork* mask_side_ = nullptr;
  uint64_t last_number_ = 0;
  absl::flat_hash_map<Key, Entry*> entries_;
  // Those in the hands of side_, by number.
  absl::flat_hash_map<uint64_t, Entry*> compiling_;
  // Used last first.
  std::list<std::shared_ptr<Entry>> kept_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAMMAR_CONSTRAINTS_H_
