// Decides what the next step computes. Looks at the sequences and the block pool only; runs nothing.
//
// One plan, in this order:
//
//   1. Decode rows, oldest sequence first. When a row needs a block and the pool has none, the youngest sequence that
//      may be preempted gives its blocks up. This can be the asking sequence itself.
//   2. The oldest preempted sequence comes back when the pool has blocks for all its tokens and one more, and beyond
//      them one block of each group for every running sequence: with fewer to spare, the next decode step would take
//      the blocks away again.
//   3. Prefill chunks, oldest first, in the rows of chunk_tokens that decode leaves. A chunk ends at a multiple of
//      kBlockTokens or with the prompt. A prompt whose log-probabilities are asked for gets fewer rows, so that their
//      logits stay within bounds. Decode cannot starve prefill, which always gets the rows of one block and, of
//      two or more slots, one.
//
// A sequence that waits for its constraint (TokenConstraint::IsReady) is in no plan, and keeps its blocks.
//
// So every plan contains the oldest decode sequence and the oldest prefill of those that do not wait, unless sequences
// that may not be preempted hold all blocks.
//
// A sequence that runs alone gets plans of its own, by the same rules. Such plans take turns with those of all others,
// and among each other.
//
// While a step is in flight whose tokens are not known yet, the step behind it is planned by PlanAhead. That is a step
// of decode rows alone, and only where Plan would have no choice to make once the tokens are known: no prompt waits, no
// sequence is preempted or runs alone, and every row has its block.
//
// Plans allocate nothing. Used by one thread.
#ifndef BATON_ENGINE_BATCH_SCHEDULER_H_
#define BATON_ENGINE_BATCH_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/block_pool.h"
#include "engine/sequence.h"

namespace baton::engine {

struct PlannedSlice {
  Sequence* sequence = nullptr;
  // Rows are positions [first_position, first_position + row_count).
  int32_t first_position = 0;
  int32_t row_count = 0;
};

struct SchedulerOptions {
  int32_t chunk_tokens = 0;
  int32_t max_sequences = 0;
  bool prefix_cache = true;
  // Most rows of a step that give log-probabilities of a prompt; at least kBlockTokens.
  int32_t scored_rows = kBlockTokens;
};

class BatchScheduler {
 public:
  // Oldest first.
  using Sequences = absl::Span<const std::unique_ptr<Sequence>>;

  // chunk_tokens >= kBlockTokens, max_sequences >= 1. The pool outlives the scheduler.
  BatchScheduler(const SchedulerOptions& options, BlockPool& pool);

  // Valid until the next call. Changes states (to kPreempted, and from it to kPrefill) and blocks of the sequences.
  absl::Span<const PlannedSlice> Plan(Sequences sequences);

  // The step behind the one in flight; empty when there is nothing to do or it is better planned by Plan. A sequence
  // that awaits its token from the step in flight has a row for it, unless ends(sequence): that token is its last,
  // whichever it is. Changes blocks of the sequences and no states. Valid until the next call.
  absl::Span<const PlannedSlice> PlanAhead(Sequences sequences, absl::FunctionRef<bool(const Sequence&)> ends);

  // Whether Plan would do anything. Not while a step is in flight.
  bool HasWork(Sequences sequences) const;

  // Sequences that gave their blocks up, over all plans.
  int64_t preemptions() const { return preemptions_; }

  // Rows of the largest plan.
  int32_t max_rows() const { return options_.chunk_tokens + options_.max_sequences; }

 private:
  void PlanShared(Sequences sequences);
  // These two return whether they have planned a row.
  bool PlanAlone(Sequences sequences);
  bool PlanDecodeRow(Sequences sequences, Sequence& sequence);
  void PlanDecode(Sequences sequences, int32_t slots);
  void PlanPrefill(Sequences sequences);
  // Rows that were planned, at most `budget`.
  int32_t PlanChunk(Sequence& sequence, int32_t budget);
  bool GrowForNextRow(Sequences sequences, Sequence& sequence);
  void ResumeOldestPreempted(Sequences sequences);
  bool CanResume(Sequence& sequence, int32_t runnable, PrefixHits& hits) const;

  const SchedulerOptions options_;
  BlockPool& pool_;
  std::vector<PlannedSlice> plan_;
  // How many of SchedulerOptions::scored_rows this plan has left.
  int32_t scored_rows_left_ = 0;
  // The last plan was for one that runs alone, and the last such one.
  bool was_alone_ = false;
  SequenceId last_alone_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_BATCH_SCHEDULER_H_
