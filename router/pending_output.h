// The output of one request that waits for its client, merged into one delta.
#ifndef BATON_ROUTER_PENDING_OUTPUT_H_
#define BATON_ROUTER_PENDING_OUTPUT_H_

#include <cstddef>
#include <utility>

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
  void Append(GenerationDelta delta);
  // Leaves nothing.
  GenerationDelta Take();

  bool empty() const { return delta_.tokens.empty() && delta_.text.empty(); }
  // The memory that it takes.
  size_t bytes() const { return bytes_; }

 private:
  PendingOutputLimits limits_;
  GenerationDelta delta_;
  size_t bytes_ = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_PENDING_OUTPUT_H_
