// The seam between the engine's bookkeeping and its arithmetic. The CPU engine, a CUDA engine and the simulator's fake
// model stand behind it.
//
// A step is submitted, and completed later. In between it is in flight: the runner computes while its caller does other
// work. The runner also chooses the tokens, so that logits stay in the memory where they were computed. Some runners
// take a second step before the first is complete, whose rows have tokens that the first has yet to choose.
#ifndef BATON_ENGINE_MODEL_RUNNER_H_
#define BATON_ENGINE_MODEL_RUNNER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/kv_layout.h"
#include "common/kv_pool.h"
#include "common/memory_access.h"
#include "common/output_token.h"
#include "common/prompt_logprob.h"
#include "engine/sampler.h"

namespace baton::engine {

// What the rows of a slice are for. A runner may run the classes in different ways; no result depends on them.
enum class RowClass : uint8_t {
  // Tokens of a prompt, or tokens whose KV was given up and is computed again.
  kPrefill,
  // One row: the token that was chosen last.
  kDecode,
};

// The rows of a slice that have outputs.
enum class OutputRows : uint8_t {
  kNone,
  kLast,
  // For the log-probabilities of a prompt, and for the verification of drafts.
  kAll,
};

// Rows of one sequence in a step: tokens at positions [first_position, first_position + row_count).
struct SequenceSlice {
  // Index of the slice's first row in StepBatch::tokens.
  int32_t first_row = 0;
  int32_t row_count = 0;
  int32_t first_position = 0;
  // Block of position p in layer group g is blocks[g * group_stride + p / kBlockTokens]; covers every position up to
  // the last row of the slice. In full groups the KV of all earlier positions is in place; in sliding groups the KV
  // that the slice's rows see is, and blocks before it are kNoBlock, or still there for the step before in a step
  // behind another one. The runner writes the KV of the slice's rows. It never writes a block that others share.
  absl::Span<const BlockId> blocks;
  int32_t group_stride = 0;
  RowClass row_class = RowClass::kPrefill;
  OutputRows output_rows = OutputRows::kNone;
  // Index of the first output row among those of the step.
  int32_t first_output = -1;
};

inline bool IsPrompt(const SequenceSlice& slice) { return slice.row_class == RowClass::kPrefill; }

// What becomes of an output row: the token after it is chosen, or is known and gets its log-probability. One of the
// pointers is set; a row with neither is left alone.
struct TokenChoice {
  const SamplingParams* sampling = nullptr;
  SamplingContext context = {};
  // Where the log-probability goes of `scored_token`, and of the `scored_top` most likely ones.
  PromptLogprob* score = nullptr;
  int32_t scored_token = 0;
  int32_t scored_top = 0;
};

// Whether the row's logits alone choose its token, and nobody wants to see them.
inline bool LogitsDecide(const TokenChoice& choice) {
  return choice.score == nullptr && choice.sampling != nullptr && LogitsDecide(*choice.sampling, choice.context);
}

// One step: every slice's rows go through all layers together. A row's result depends on its own sequence alone.
struct StepBatch {
  absl::Span<const int32_t> tokens;
  absl::Span<const SequenceSlice> slices;
  // Output rows of all slices.
  int32_t output_count = 0;
  // [output_count] when tokens are wanted.
  absl::Span<const TokenChoice> choices = {};
  // Empty, or for each row: the output of the step before whose token is the row's, in place of that in `tokens`; -1
  // where `tokens` has it. For a step behind another one (ModelRunner::TakesStepAhead).
  absl::Span<const int32_t> token_sources = {};
};

// What is wanted of the output rows, and where the runner writes it. An empty span: not wanted.
struct StepOutputs {
  // [output_count], chosen by StepBatch::choices. What lies there for a row that chooses none is not written.
  absl::Span<OutputToken> tokens = {};
  // [output_count][vocab_size()].
  absl::Span<float> logits = {};
  // [output_count][hidden_size()]: the last layer's output after its norm, which the LM head multiplies.
  absl::Span<float> hidden_states = {};
};

// Called by one thread, the engine's owner. What a step writes (the block of each row in each layer group) is nobody
// else's to read or write while the step is in flight, but for what AwaitLayers says.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual int32_t vocab_size() const = 0;
  virtual int32_t context_length() const = 0;
  // 0: the runner gives no hidden states, which must not be asked for then.
  virtual int32_t hidden_size() const = 0;
  virtual const KvLayout& kv_layout() const = 0;

  // Names everything a row's bits depend on: weights, layout, KV type, numerics, and a digest of a small fixed model's
  // KV and logits computed on this machine. KV moves only between equal fingerprints.
  virtual const std::string& fingerprint() const = 0;

  // The memory that the runner computes in, where that is not the host's (null). It lives as long as the runner.
  virtual MemoryAccess* memory() { return nullptr; }
  // How many blocks' room a pool takes behind those that it counts.
  virtual int32_t spare_blocks() const { return 0; }
  // A pool of `blocks` blocks in the memory that the runner computes in, whose bytes are all zero: at the beginning of
  // `region`, which is of memory(), has room for the spare blocks too and outlives the pool; without a region in memory
  // of its own. Null: it computes in host memory, and the caller brings a pool of that. RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<KvPool>> MakeKvPool(int32_t /*blocks*/, absl::Span<uint8_t> /*region*/) {
    return nullptr;
  }

  // Where blocks are read and written; called once, before the first step. Blocks have kv_layout().block_bytes() bytes,
  // are 64-byte aligned and lie in memory that the runner computes in. The caller owns the pool, which outlives the
  // last step.
  virtual void SetKvPool(KvPool& pool) = 0;

  // Zeroes what the block's rows from `first_row` on hold, and nothing else. Not while any step is in flight.
  virtual void ZeroRows(BlockId block, int32_t first_row) = 0;

  // Starts a step. One is in flight at most, or two where TakesStepAhead said so. Whatever `batch` and `outputs` refer
  // to stays as it is until the step is complete. Where TakesStepAhead is ever true, tokens and slices with their
  // blocks are of no more use once Submit returns.
  virtual void Submit(const StepBatch& batch, const StepOutputs& outputs) = 0;
  // Whether Submit takes another step while the one of the last call is in flight. All tokens of this one are chosen
  // where the runner computes, by their logits alone (LogitsDecide), so that rows of the other may have them
  // (StepBatch::token_sources). Tokens behind such rows are chosen the same way.
  virtual bool TakesStepAhead() const { return false; }
  // Waits until the KV of more than `known` layers of the oldest step in flight is in place, and returns how many these
  // are, counted from the first. They may be read from then on. kv_layout().layers, which is not waited for: nothing
  // more is told before the step's end.
  virtual int32_t AwaitLayers(int32_t /*known*/) { return kv_layout().layers; }
  // Returns when the oldest step in flight has ended: its KV and its outputs are in place.
  virtual void Complete() = 0;

  // A whole step at once.
  void Run(const StepBatch& batch, const StepOutputs& outputs) {
    Submit(batch, outputs);
    Complete();
  }
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_RUNNER_H_
