// The seam between the engine's bookkeeping and its arithmetic. The CPU engine, a CUDA engine and the simulator's fake
// model stand behind it.
#ifndef BATON_ENGINE_MODEL_RUNNER_H_
#define BATON_ENGINE_MODEL_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/kv_layout.h"
#include "common/kv_pool.h"

namespace baton::engine {

// Rows of one sequence in a step: tokens at positions [first_position, first_position + row_count).
struct SequenceSlice {
  // Index of the slice's first row in StepBatch::tokens.
  int32_t first_row = 0;
  int32_t row_count = 0;
  int32_t first_position = 0;
  // Block of position p in layer group g is blocks[g * group_stride + p / kBlockTokens]; covers every position up to
  // the last row of the slice. KV of all earlier positions is there, in a sliding group that of those which the slice's
  // rows see, with kNoBlock before it; the runner writes that of the slice's rows. Blocks shared with others are never
  // among those written.
  absl::Span<const BlockId> blocks;
  int32_t group_stride = 0;
  // Whether the logits after the slice's last row are wanted, and if so at which index of the output.
  bool wants_logits = false;
  // Logits after every row of the slice are wanted (perplexity, verification of drafts): row_count outputs.
  bool wants_all_logits = false;
  int32_t logits_index = -1;
};

// One step: every slice's rows go through all layers together. A row's result depends on its own sequence alone.
struct StepBatch {
  absl::Span<const int32_t> tokens;
  absl::Span<const SequenceSlice> slices;
  // Rows of logits wanted in all.
  int32_t logits_count = 0;
};

// Called by one thread, the engine's owner.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual int32_t vocab_size() const = 0;
  virtual int32_t context_length() const = 0;
  virtual const KvLayout& kv_layout() const = 0;

  // Names everything a row's bits depend on: weights, layout, KV type, numerics, and a digest of a small fixed model's
  // KV and logits computed on this machine. KV moves only between equal fingerprints.
  virtual const std::string& fingerprint() const = 0;

  // Where blocks are read and written; once, before the first step. Blocks of kv_layout().block_bytes(), 64-byte
  // aligned, in memory that the runner computes in. The caller owns the pool, which outlives the last step.
  virtual void SetKvPool(KvPool& pool) = 0;

  // Runs one step. `logits` has logits_count rows of vocab_size() floats.
  virtual void Forward(const StepBatch& batch, absl::Span<float> logits) = 0;

  // Calls fn(i) once for each i of [0, count), on any threads and in any order, and returns when all have returned. For
  // what belongs to a step besides Forward; the runner may lend its kernel threads.
  virtual void ForEach(int count, absl::FunctionRef<void(int)> fn) {
    for (int i = 0; i < count; ++i) fn(i);
  }
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_RUNNER_H_
