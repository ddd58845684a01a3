// The masks of one output that take too long for the engine's loop.
#ifndef BATON_WORKER_HEAVY_MASKS_H_
#define BATON_WORKER_HEAVY_MASKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/ids.h"
#include "engine/token_constraint.h"
#include "grammar/grammar.h"
#include "grammar/vocabulary.h"
#include "worker/side_work.h"

namespace baton::worker {

// The states and masks that it finds are the output's own: they are in the hands of `side` while a mask is looked for,
// and nobody's business else. Used by the engine's thread.
class HeavyMasks {
 public:
  // `id` names its work to `side`, which outlives it.
  HeavyMasks(SideWork& side, const Id128& id, std::shared_ptr<const grammar::Grammar> grammar,
             std::shared_ptr<const grammar::Vocabulary> vocabulary);
  ~HeavyMasks();

  // Looks for the mask behind `tokens`, which are legal, and begin with those of the call before. What was looked for
  // then and is not known yet will not be. False when there is no room for it.
  [[nodiscard]] bool Ask(absl::Span<const int32_t> tokens);
  // Whether what was asked for last is there.
  bool is_known() const { return found_->own != nullptr; }
  // What it is, until the next Ask.
  engine::AllowedTokens allowed() const;

 private:
  struct Own;
  // Where the loop finds what side_ gives back.
  struct Found {
    std::shared_ptr<Own> own;
  };
  void Abandon();

  SideWork& side_;
  const Id128 id_;
  const std::shared_ptr<const grammar::Grammar> grammar_;
  const std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  std::shared_ptr<Found> found_ = std::make_shared<Found>();
  // Whether side_ is to give up.
  std::shared_ptr<std::atomic<bool>> is_unwanted_ = std::make_shared<std::atomic<bool>>(false);
  // Tokens that Own has accepted, or does.
  size_t accepted_ = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HEAVY_MASKS_H_
