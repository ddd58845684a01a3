// An engine over a fake model and its own pool, for tests.
#ifndef BATON_ENGINE_TEST_ENGINE_H_
#define BATON_ENGINE_TEST_ENGINE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "common/check.h"
#include "engine/engine.h"
#include "engine/fake_model.h"

namespace baton::engine {

// Aborts when a step writes a block that another slice of the step refers to, runs more rows than it may, or ends a
// chunk inside a block.
class CheckedModel final : public ModelRunner {
 public:
  CheckedModel(const FakeModelOptions& options, int32_t max_rows) : model_(options), max_rows_(max_rows) {}

  int32_t vocab_size() const override { return model_.vocab_size(); }
  int32_t context_length() const override { return model_.context_length(); }
  const KvLayout& kv_layout() const override { return model_.kv_layout(); }
  const std::string& fingerprint() const override { return model_.fingerprint(); }
  void SetKvPool(uint8_t* base, int32_t block_count) override { model_.SetKvPool(base, block_count); }

  void Forward(const StepBatch& batch, absl::Span<float> logits) override {
    BATON_CHECK(static_cast<int32_t>(batch.tokens.size()) <= max_rows_) << batch.tokens.size();
    std::map<BlockId, int> referring;
    for (const SequenceSlice& slice : batch.slices) {
      for (BlockId block : slice.blocks) ++referring[block];
    }
    for (const SequenceSlice& slice : batch.slices) {
      const int32_t end = slice.first_position + slice.row_count;
      BATON_CHECK(static_cast<int>(slice.blocks.size()) == BlocksForTokens(end));
      BATON_CHECK(slice.wants_logits || end % kBlockTokens == 0) << "a chunk ends at " << end;
      for (int32_t i = slice.first_position / kBlockTokens; i < BlocksForTokens(end); ++i) {
        BATON_CHECK(referring[slice.blocks[static_cast<size_t>(i)]] == 1) << "a shared block is written";
      }
    }
    rows_ += static_cast<int64_t>(batch.tokens.size());
    model_.Forward(batch, logits);
  }

  // Run so far.
  int64_t rows() const { return rows_; }

 private:
  FakeModel model_;
  const int32_t max_rows_;
  int64_t rows_ = 0;
};

class TestEngine {
 public:
  explicit TestEngine(const EngineOptions& options, const FakeModelOptions& model_options = {})
      : model(model_options, options.chunk_tokens + options.max_sequences),
        memory(static_cast<size_t>(options.block_count) * model.kv_layout().block_bytes(), 0xa5),
        engine(options, model, absl::MakeSpan(memory)) {}

  absl::Span<uint8_t> Block(BlockId block) {
    const size_t bytes = model.kv_layout().block_bytes();
    return absl::MakeSpan(memory).subspan(static_cast<size_t>(block) * bytes, bytes);
  }

  CheckedModel model;
  std::vector<uint8_t> memory;
  Engine engine;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_TEST_ENGINE_H_
