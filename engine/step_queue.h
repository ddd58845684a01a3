// The steps of an engine that are on their way: the one whose events come next, and one behind it, where the runner
// takes a step ahead.
//
// While a step is in flight its sequences may end, and be released. Two things stay then until it is complete: what the
// runner still refers to, and the blocks that the step writes. So:
//
//   A block that a step in flight writes has a reference: that of the row's sequence or, once this is released, the
//   queue's. Whoever takes a block that nobody refers to may zero it, read into it or take its digest at once.
//
// A block that a step only reads needs no such care. Nobody wants the token of a sequence that has ended, and later
// steps, which may write the block, come after.
#ifndef BATON_ENGINE_STEP_QUEUE_H_
#define BATON_ENGINE_STEP_QUEUE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/kv_layout.h"
#include "common/output_token.h"
#include "engine/batch_scheduler.h"
#include "engine/block_pool.h"
#include "engine/model_runner.h"
#include "engine/sequence.h"
#include "engine/sequence_types.h"

namespace baton::engine {

struct StepSizes {
  int32_t rows = 0;
  int32_t sequences = 0;
  int32_t outputs = 0;
};

// What a step computes and gives.
struct EngineStep {
  enum class Stage : uint8_t { kNone, kInFlight, kComplete };

  Stage stage = Stage::kNone;
  // Has an entry for each slice, whose sequence is null where it takes no part any more.
  std::vector<PlannedSlice> plan;
  std::vector<SequenceSlice> slices;
  std::vector<int32_t> tokens;
  // Has an entry for each row of a step that is planned ahead (StepBatch::token_sources), else none.
  std::vector<int32_t> token_sources;
  // One for each output row: those that end with the last token of their sequence, and all of a prompt that gives its
  // log-probabilities.
  std::vector<TokenChoice> choices;
  // The first choices.size() are in use.
  std::vector<OutputToken> chosen;
  // [choices.size()][hidden size] in a step that has rows of an embedding, else empty.
  std::vector<float> hidden_states;

  // The sequence of a slice, if it is still there and wants the token; else null.
  static Sequence* Live(const PlannedSlice& planned) {
    return planned.sequence != nullptr && planned.sequence->runnable() ? planned.sequence : nullptr;
  }
  bool IsLive() const;
  void Clear();
};

// Allocates nothing after construction, but what EngineStep::hidden_states needs. Used by one thread.
class StepQueue {
 public:
  // Runner and pool outlive the queue.
  StepQueue(const StepSizes& sizes, ModelRunner& runner, BlockPool& pool);
  // Waits for what is in flight.
  ~StepQueue();
  StepQueue(const StepQueue&) = delete;
  StepQueue& operator=(const StepQueue&) = delete;

  // The step whose events come next. In the stage kNone there is none, and its buffers are free for one.
  EngineStep& next() { return steps_[next_]; }
  const EngineStep& next() const { return steps_[next_]; }
  // The buffers for the step behind it.
  EngineStep& ahead() { return steps_[1 - next_]; }

  bool is_in_flight() const { return next().stage == EngineStep::Stage::kInFlight; }
  // Whether ahead() may be submitted.
  bool TakesStepAhead() const { return is_in_flight() && runner_.TakesStepAhead(); }
  // The step is in the stage kNone. Where both are, next() comes first.
  void Submit(EngineStep& step);
  // Tells how far next(), which is in flight, is with each of its prompts, until nothing more is told before its end.
  void ShowLayers(absl::FunctionRef<void(const LayerEvent&)> on_layers);
  // Waits for next(), if it is in flight. It is complete then.
  void Await();
  // next() is dealt with.
  void Pop();

  // The sequence's row in next(), if it has one, comes to nothing.
  void Drop(const Sequence& sequence);
  // Gives back all blocks of the sequence but those that next() still writes, which come back when it is complete.
  void Release(std::unique_ptr<Sequence> sequence);
  // How many blocks come back then.
  int32_t withheld() const { return static_cast<int32_t>(withheld_.size()); }

 private:
  PlannedSlice* Find(const Sequence& sequence);

  ModelRunner& runner_;
  BlockPool& pool_;
  std::array<EngineStep, 2> steps_;
  size_t next_ = 0;
  // What was released of next() while it was in flight.
  std::vector<std::unique_ptr<Sequence>> ended_;
  std::vector<BlockId> withheld_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_STEP_QUEUE_H_
