// A model without arithmetic, for tests and the simulator: its tokens follow from the true prefix and the seed alone,
// and it reads that prefix back from the KV pool through the block table. Wrong KV gives wrong tokens.
//
// The KV cell of position p is a 128-bit hash of the cell of p - 1, as it lies in memory, and of token p. Logits after
// p are a hash of all cells 0..p, as they lie in memory. FakeModelTokens computes the same without any memory.
#ifndef BATON_ENGINE_FAKE_MODEL_H_
#define BATON_ENGINE_FAKE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling_params.h"
#include "engine/model_runner.h"

namespace baton::engine {

struct FakeModelOptions {
  int32_t vocab_size = 64;
  int32_t context_length = 4096;
  // Another value is another model.
  uint64_t weights_seed = 1;
};

class FakeModel final : public ModelRunner {
 public:
  explicit FakeModel(const FakeModelOptions& options);

  int32_t vocab_size() const override { return options_.vocab_size; }
  int32_t context_length() const override { return options_.context_length; }
  // 16 bytes a token.
  const KvLayout& kv_layout() const override { return layout_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  void SetKvPool(uint8_t* base, int32_t block_count) override;
  void Forward(const StepBatch& batch, absl::Span<float> logits) override;

 private:
  uint8_t* Cell(absl::Span<const BlockId> blocks, int32_t position) const;
  void RunSlice(const StepBatch& batch, const SequenceSlice& slice, absl::Span<float> logits);
  void WriteLogits(absl::Span<const BlockId> blocks, int32_t cells, absl::Span<float> logits) const;

  const FakeModelOptions options_;
  const KvLayout layout_;
  const std::string fingerprint_;
  uint8_t* base_ = nullptr;
  int32_t block_count_ = 0;
};

// All outputs that a request for `prompt` gets, up to and including the one that ends it. `eos_ids` as in
// EngineOptions.
std::vector<int32_t> FakeModelTokens(const FakeModelOptions& options, const std::vector<int32_t>& prompt,
                                     const SamplingParams& sampling, const std::vector<int32_t>& eos_ids);

}  // namespace baton::engine

#endif  // BATON_ENGINE_FAKE_MODEL_H_
