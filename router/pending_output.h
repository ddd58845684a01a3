// The output of one request that waits for its client, merged into one delta for each choice.
#ifndef BATON_ROUTER_PENDING_OUTPUT_H_
#define BATON_ROUTER_PENDING_OUTPUT_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/limits.h"
#include "router/generation.h"

namespace baton::router {

struct PendingOutputLimits {
  size_t tokens = kMaxUnreadOutputTokens;
  size_t bytes = kMaxUnreadOutputBytes;
};

// An answer that its client gets as a whole waits for its end.
inline constexpr PendingOutputLimits kWholeAnswerLimits = {.tokens = kMaxOutputTokens, .bytes = kMaxWholeAnswerBytes};

class PendingOutput {
 public:
  explicit PendingOutput(const PendingOutputLimits& limits = {}) : limits_(limits) {}

  bool Fits(const GenerationDelta& delta) const;
  // More than half of what may wait has waited, and still more than a quarter does.
  bool is_behind() const { return is_behind_; }
  void Append(GenerationDelta delta);
  // What waits of one choice: of that which has waited longest.
  GenerationDelta Take();
  // As Take, but the end of a choice waits until nothing else of the choice does.
  GenerationDelta TakeOutput();
  // What waits of each of so many choices, at least one, in order.
  std::vector<GenerationDelta> TakeAll(size_t choices);
  void Clear();

  bool empty() const { return deltas_.empty(); }
  // The memory that it takes.
  size_t bytes() const { return bytes_ + prompt_bytes_; }

 private:
  PendingOutputLimits limits_;
  // One for each choice of which something waits.
  absl::InlinedVector<GenerationDelta, 1> deltas_;
  size_t tokens_ = 0;
  size_t bytes_ = 0;
  // Prompts have bounds of their own.
  size_t prompt_bytes_ = 0;
  bool is_behind_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_PENDING_OUTPUT_H_
