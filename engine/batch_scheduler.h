// Decides what the next step computes. Looks at the sequences and the block pool only; runs nothing.
//
// One plan, in this order:
//
//   1. Decode rows, oldest sequence first. A row that needs a block and finds none takes those of the youngest sequence
//      that may be preempted; when the asking one is the youngest itself, it is preempted.
//   2. The oldest preempted sequence comes back, when blocks for all its tokens and one more can be had, and one of
//      each group to spare for every running sequence (else the next decode step would take them away again).
//   3. Prefill chunks, oldest first, in what decode leaves of chunk_tokens. A chunk ends at a multiple of kBlockTokens
//      or with the prompt. Prefill always gets one block's rows, and one slot of two or more: decode cannot starve it.
//
// So the oldest decode sequence and the oldest prefill are in every plan, unless sequences that may not be preempted
// hold all blocks.
//
// Plan allocates nothing. Used by one thread.
#ifndef BATON_ENGINE_BATCH_SCHEDULER_H_
#define BATON_ENGINE_BATCH_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <vector>

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
};

class BatchScheduler {
 public:
  // Oldest first.
  using Sequences = absl::Span<const std::unique_ptr<Sequence>>;

  // chunk_tokens >= kBlockTokens, max_sequences >= 1. The pool outlives the scheduler.
  BatchScheduler(const SchedulerOptions& options, BlockPool& pool);

  // Valid until the next call. Changes states (to kPreempted, and from it to kPrefill) and blocks of the sequences.
  absl::Span<const PlannedSlice> Plan(Sequences sequences);

  // Whether Plan would do anything.
  bool HasWork(Sequences sequences) const;

  // Rows of the largest plan.
  int32_t max_rows() const { return options_.chunk_tokens + options_.max_sequences; }

 private:
  void PlanDecode(Sequences sequences, int32_t slots);
  void PlanPrefill(Sequences sequences);
  bool GrowForNextRow(Sequences sequences, Sequence& sequence);
  void ResumeOldestPreempted(Sequences sequences);
  bool CanResume(Sequence& sequence, int32_t runnable, PrefixHits& hits) const;

  const SchedulerOptions options_;
  BlockPool& pool_;
  std::vector<PlannedSlice> plan_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_BATCH_SCHEDULER_H_
