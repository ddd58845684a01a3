// The engine of one worker: sequences over one block pool, one batch per step. It is mechanism only: the worker's
// policy decides which sequences to reserve, start, hold or drop. It has no thread, clock or socket of its own; the
// model runner and the memory are injected.
//
// A sequence:
//
//   state      | event                     | next       | action
//   -----------+---------------------------+------------+----------------------------------------------------------
//   -          | Reserve                   | kReserved  | pins prefix hits, takes fresh blocks for the whole prompt; in
//              |                           |            | sliding groups (KvGroups) it takes a promise of as many as it
//              |                           |            | needs at once, or, to pull the prompt, the blocks handed over
//   kReserved  | StartPrefill              | kPrefill   | its rows join the batches, from the first uncached token
//   kReserved  | StartDecode(token 0)      | kDecode    | publishes the prompt's full blocks; one row a step
//   kPrefill   | Step runs the last row    | kDecode    | samples the next token; kFinished when that ends it
//   kDecode    | Step                      | kDecode    | samples the next token; kFinished when that ends it
//   kDecode    | no block for the next row | kPreempted | gives its blocks back (some may stay as cached prefix)
//   kPreempted | blocks for all its tokens | kPrefill   | recomputes prompt + outputs; samples only new indices
//   kDecode    | Freeze                    | kFinished  | as Stop; its KV can be handed over: that of all tokens but
//              |                           |            | the last, whose row has not run
//   kFinished  | Thaw, after Freeze        | kDecode    | goes on as if it had not been frozen
//   any        | Stop                      | kFinished  | joins no batch any more, keeps its blocks for readers
//   any        | Release                   | -          | gives its blocks back
//
// After each of its rows a sequence gives back the blocks of sliding groups that its next row does not see any more.
//
// Where the runner takes a step ahead (ModelRunner::TakesStepAhead), the step behind the one whose tokens Step waits
// for is submitted already when that is safe (BatchScheduler::PlanAhead), and is in flight when Step returns. It
// changes no token and nothing that callers see but the blocks that its rows take. A sequence that ends, is stopped or
// released meanwhile loses its row in it. Freeze waits for it, and Reserve does when it needs the last blocks that it
// writes.
//
// The youngest runnable sequence is preempted for an older one, so the oldest always makes progress.
#ifndef BATON_ENGINE_ENGINE_H_
#define BATON_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"
#include "common/kv_pool.h"
#include "common/work_note.h"
#include "engine/model_runner.h"
#include "engine/prefix_hash.h"
#include "engine/sequence_types.h"
#include "engine/token_constraint.h"

namespace baton::engine {

struct EngineOptions {
  // Rows of a step. Decode rows come first; prefill chunks get the rest.
  int32_t chunk_tokens = 256;
  // Most sequences in one step.
  int32_t max_sequences = 64;
  // End-of-sequence tokens of the model.
  std::vector<int32_t> eos_ids = {};
  bool prefix_cache = true;
  // Outlives the engine. Null: the engine takes no sequence with a grammar.
  ConstraintSource* constraints = nullptr;
};

// What the engine has done since it was made.
struct EngineCounters {
  // Rows of the steps, by their class (RowClass); those of a step ahead count from its beginning.
  int64_t prefill_rows = 0;
  int64_t decode_rows = 0;
  // The sum over all steps of the sequences in the step.
  int64_t step_sequences = 0;
  int64_t preemptions = 0;
  // Prompt tokens of reserved sequences, and how many of them the prefix cache had.
  int64_t prefix_queried_tokens = 0;
  int64_t prefix_hit_tokens = 0;
};

// Used by one thread.
class Engine {
 public:
  // `memory` has blocks of runner.kv_layout().block_bytes(). The caller owns it and the runner; both outlive the
  // engine, and so does `work`, where a step notes whom it is for; it may be null. `prefix_names` are this engine's
  // own.
  Engine(const EngineOptions& options, ModelRunner& runner, KvPool& memory, const PrefixNames& prefix_names,
         WorkNote* work = nullptr);
  ~Engine();

  // INVALID_ARGUMENT when the prompt is empty, holds ids outside the vocabulary, leaves the context no room for an
  // output, or needs more blocks than the whole pool has once its output is as long as request and context allow; also
  // for sampling parameters out of range. RESOURCE_EXHAUSTED when the sequence does not fit now, with `headroom_blocks`
  // left free beyond it. Also what ConstraintSource::Make says of the grammar, and INVALID_ARGUMENT when the grammar
  // does not allow the outputs that the sequence begins with.
  absl::StatusOr<SequenceId> Reserve(SequenceSpec spec, int32_t headroom_blocks = 0);

  // Prompt tokens found in the prefix cache at Reserve: whole blocks, at most prompt length - 1.
  int32_t cached_tokens(SequenceId id) const;
  // The blocks of the prompt that are handed over, in the order of KvGroups; kNoBlock for a block of a sliding group
  // that has not been computed.
  std::vector<BlockId> PromptBlocks(SequenceId id) const;

  void StartPrefill(SequenceId id);
  // Whether a peer's claim about the next output of a reserved sequence can be true: the id is in the vocabulary, the
  // grammar allows it, and it ends the request exactly as the peer says.
  bool AcceptsFirst(SequenceId id, const OutputToken& first) const;
  // The KV of the whole prompt is in its blocks, as far as later rows see it, and the next output is known. This token
  // is in the vocabulary and does not end the sequence; the caller checks a peer's token with AcceptsFirst.
  void StartDecode(SequenceId id, const OutputToken& first);
  // Ends a sequence that decodes, so that another engine can go on with it: with the prompt and all outputs but the
  // last as its prompt, and the last one as its first output. Returns the blocks to hand over, in the order of KvGroups
  // for that prompt. The unused rows of the last block of every group hold zeros, as they do after a prefill of that
  // prompt.
  std::vector<BlockId> Freeze(SequenceId id);
  // Nobody has read or will read what Freeze returned.
  void Thaw(SequenceId id);
  // Legal in every state. The sequence gets no more rows and no more events; its blocks stay until Release.
  void Stop(SequenceId id);
  // Legal in every state.
  void Release(SequenceId id);

  // Whether Step would do anything.
  bool HasWork() const;
  // Schedules one batch, unless one is in flight, and returns when it has run. There may be no events where sequences
  // were stopped or released meanwhile. The events are valid until the next Step.
  // Meanwhile `on_layers` hears how far the step is with each of its prompts, where the runner says that
  // (ModelRunner::AwaitLayers). It must not change the engine.
  absl::Span<const StepEvent> Step(absl::FunctionRef<void(const LayerEvent&)> on_layers = [](const LayerEvent&) {});
  // The events are dealt with: what happens from here on is not the fault of that step's sequences.
  void ForgetStep();

  EngineLoad Load() const;
  EngineCounters Counters() const;
  // Used blocks that belong to no sequence of which `is_owned` is true: blocks that nobody will ever give back. Looks
  // at all blocks of all sequences.
  int32_t OrphanedBlocks(absl::FunctionRef<bool(SequenceId)> is_owned) const;
  // What every sequence holds, oldest first. The sum of own_blocks is used_blocks. Looks at all blocks of all
  // sequences.
  std::vector<HeldBlocks> Held() const;
  // Blocks that Reserve can take now.
  int32_t available_blocks() const;

  // Digests of blocks' bytes as they are now.
  std::vector<Digest128> BlockDigests(absl::Span<const BlockId> blocks) const;
  // Chain of the digests of PromptBlocks, in order. Call it when prefill is complete and before a decode step.
  Digest128 PromptDigest(SequenceId id) const;

  ModelRunner& runner();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_ENGINE_H_
