// A model without arithmetic, for tests and the simulator: its tokens follow from the true prefix and the seed alone,
// and it reads that prefix back from the KV pool through the block table. Wrong KV gives wrong tokens.
//
// A layer's KV cell of position p is a 128-bit hash of its cells of p - 1 and, where the layer slides, of the first
// position that row p sees, as they lie in memory, and of token p. Logits after p are a hash of all cells that row p
// sees, as they lie in memory. FakeModelTokens computes the same without any memory.
#ifndef BATON_ENGINE_TESTING_FAKE_MODEL_H_
#define BATON_ENGINE_TESTING_FAKE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling_params.h"
#include "engine/host_model_runner.h"
#include "engine/testing/fake_steps.h"

namespace baton::engine {

// A row's hidden state follows from what its logits follow from.
inline constexpr int32_t kFakeHiddenSize = 2;

// Whether the model takes a step ahead, and when its steps run: as late as possible, in Complete, or as early, in
// Submit. What it gives is the same.
enum class StepsAhead : uint8_t { kNone, kLate, kEarly };

struct FakeModelOptions {
  int32_t vocab_size = 64;
  int32_t context_length = 4096;
  // A model with another seed has other weights.
  uint64_t weights_seed = 1;
  int32_t full_layers = 1;
  // Sliding layers come first and see the last `window` tokens, which are at least two.
  int32_t sliding_layers = 0;
  int32_t window = 0;
  StepsAhead steps_ahead = StepsAhead::kNone;
  // Whether AwaitLayers tells of each layer, whose KV is then there before that of the next one. The results are the
  // same.
  bool layer_by_layer = false;

  int32_t layers() const { return full_layers + sliding_layers; }
  bool Slides(int32_t layer) const { return layer < sliding_layers; }
  int32_t FirstSeen(int32_t layer, int32_t position) const {
    return Slides(layer) ? std::max(position - window + 1, 0) : 0;
  }
};

class FakeModel : public HostModelRunner {
 public:
  explicit FakeModel(const FakeModelOptions& options);

  int32_t vocab_size() const override { return options_.vocab_size; }
  int32_t context_length() const override { return options_.context_length; }
  int32_t hidden_size() const override { return kFakeHiddenSize; }
  // 16 bytes a token and layer.
  const KvLayout& kv_layout() const override { return layout_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  void SetKvPool(KvPool& pool) override;
  void ZeroRows(BlockId block, int32_t first_row) override;
  void Submit(const StepBatch& batch, const StepOutputs& outputs) override;
  bool TakesStepAhead() const override { return steps_.TakesAnother(); }
  int32_t AwaitLayers(int32_t known) override;
  void Complete() override;

  // Whether a step in flight writes the block, which is nobody else's then, and how many steps were ahead so far. A
  // model that takes no step ahead says false and 0.
  bool Writes(BlockId block) const { return steps_.Write(block); }
  int64_t steps_ahead() const { return steps_.ahead(); }

 protected:
  void Forward(const StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) override;

 private:
  uint8_t* Cell(const SequenceSlice& slice, int32_t layer, int32_t position) const;
  void RunSlice(const StepBatch& batch, const SequenceSlice& slice, absl::Span<float> logits,
                absl::Span<float> hidden_states);
  void RunRow(const SequenceSlice& slice, int32_t position, int32_t token);
  void RunCell(const SequenceSlice& slice, int32_t layer, int32_t position, int32_t token);
  void RunLayer(const StepBatch& batch, int32_t layer);
  void RunStep(FakeStep& step);
  // A hash of the cells that the row sees.
  uint64_t Sum(const SequenceSlice& slice, int32_t position) const;

  const FakeModelOptions options_;
  const KvLayout layout_;
  const std::vector<KvLayout::Place> places_;
  const int32_t groups_;
  const size_t block_bytes_;
  const std::string fingerprint_;
  uint8_t* base_ = nullptr;
  int32_t block_count_ = 0;
  // Empty where no step is taken ahead.
  FakeSteps steps_;
};

// All outputs that a request for `prompt` gets, up to and including the one that ends it. `eos_ids` as in
// EngineOptions. A grammar is the one of thirds_grammar.h.
std::vector<int32_t> FakeModelTokens(const FakeModelOptions& options, const std::vector<int32_t>& prompt,
                                     const SamplingParams& sampling, const std::vector<int32_t>& eos_ids);

// All that a request which asks for `top` likely tokens gets of its prompt.
std::vector<PromptLogprob> FakeModelPromptLogprobs(const FakeModelOptions& options, const std::vector<int32_t>& prompt,
                                                   int32_t top);

// The embedding of the prompt, by `pooling`.
std::vector<float> FakeModelEmbedding(const FakeModelOptions& options, const std::vector<int32_t>& prompt,
                                      Pooling pooling);

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_FAKE_MODEL_H_
