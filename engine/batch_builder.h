// Turns what the scheduler planned into the batch of a step, and gives the sequences what the rows of their prompts
// have yielded: log-probabilities, or shares of an embedding.
#ifndef BATON_ENGINE_BATCH_BUILDER_H_
#define BATON_ENGINE_BATCH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/output_token.h"
#include "engine/batch_scheduler.h"
#include "engine/model_runner.h"
#include "engine/sequence.h"
#include "engine/sequence_types.h"
#include "engine/step_queue.h"

namespace baton::engine {

struct BatchOptions {
  // Tokens that end a sequence.
  std::vector<int32_t> eos_ids;
  // Most rows of a step that give log-probabilities of a prompt.
  int32_t scored_rows = kBlockTokens;
  // Numbers in a hidden state.
  int32_t hidden_size = 0;
};

// Allocates nothing after construction, but what EngineStep::hidden_states and embeddings need. Used by one thread.
class BatchBuilder {
 public:
  explicit BatchBuilder(BatchOptions options);

  // Fills the buffers of a step, which is in no stage yet. Only a step that is planned ahead has sequences that await
  // their token, and no such step scores a prompt. The scores of the last step that did are valid until the next Build.
  void Build(absl::Span<const PlannedSlice> plan, bool is_ahead, EngineStep& step);

  // What the rows of a prompt have yielded goes to the event, or to the sequence's embedding. The step is complete, and
  // no other was built since but one that is ahead.
  void TakePromptRows(const EngineStep& step, const SequenceSlice& slice, Sequence& sequence, StepEvent& event) const;

 private:
  static void AddRows(const Sequence& sequence, const SequenceSlice& slice, bool is_ahead, EngineStep& step);
  void AddScores(const Sequence& sequence, SequenceSlice& slice, EngineStep& step);
  void AddChoice(Sequence& sequence, SequenceSlice& slice, EngineStep& step) const;
  void PoolRows(const EngineStep& step, const SequenceSlice& slice, Sequence& sequence) const;

  const BatchOptions options_;
  // What the rows of prompts give, slice after slice, of which the first `score_count_` are in use.
  std::vector<PromptLogprob> scores_;
  size_t score_count_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_BATCH_BUILDER_H_
