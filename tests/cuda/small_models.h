// Runners of small models on the device of the tests, and a sequence for steps that a test shapes itself.
#ifndef BATON_TESTS_CUDA_SMALL_MODELS_H_
#define BATON_TESTS_CUDA_SMALL_MODELS_H_

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/cuda/cuda_model.h"
#include "engine/cuda/testing/device_test_memory.h"
#include "engine/testing/synthetic_variants.h"
#include "gtest/gtest.h"
#include "tests/cuda/test_device.h"

namespace baton::engine::cuda {

inline std::unique_ptr<CudaRunner> LoadCuda(const modelfile::ModelFile& file, const CudaModelOptions& options) {
  auto runner = CudaRunner::Load(file, options, TestDevice());
  EXPECT_TRUE(runner.ok()) << runner.status();
  return runner.ok() ? *std::move(runner) : nullptr;
}

// A model whose kernels run in a moment.
inline SyntheticSpec Small() {
  return {.seed = 11, .layers = 2, .hidden_size = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .vocab_size = 80};
}

inline SyntheticSpec SmallGemma() {
  SyntheticSpec spec = Small();
  spec.seed = 12;
  spec.rope_interleaved = false;
  spec.sliding_window = 20;
  spec.gemma = true;
  return spec;
}

// One sequence with its blocks, for steps that a test shapes itself.
class OneSequence {
 public:
  OneSequence(CudaRunner& runner, std::vector<int32_t> tokens)
      : runner_(runner),
        tokens_(std::move(tokens)),
        stride_(BlocksForTokens(static_cast<int64_t>(tokens_.size()))),
        blocks_(static_cast<size_t>(runner.kv_layout().groups().count() * stride_)),
        memory_(runner.device(), runner.kv_layout().block_bytes(), 2 * static_cast<int>(blocks_.size())) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    runner.SetKvPool(memory_.pool());
  }

  // Its rows [begin, end), all of which have outputs.
  void Run(int begin, int end, absl::Span<const TokenChoice> choices, const StepOutputs& outputs) {
    const SequenceSlice slice{.row_count = end - begin,
                              .first_position = begin,
                              .blocks = blocks_,
                              .group_stride = stride_,
                              .output_rows = OutputRows::kAll,
                              .first_output = 0};
    runner_.Run(
        {.tokens = absl::MakeConstSpan(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
         .slices = absl::MakeConstSpan(&slice, 1),
         .output_count = end - begin,
         .choices = choices},
        outputs);
  }

  // Submits a step of its rows [begin, end), which have no outputs.
  void Submit(int begin, int end) {
    slice_ = {.row_count = end - begin, .first_position = begin, .blocks = blocks_, .group_stride = stride_};
    runner_.Submit(
        {.tokens = absl::MakeConstSpan(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
         .slices = absl::MakeConstSpan(&slice_, 1)},
        {});
  }

  std::vector<float> Logits(int begin, int end) {
    std::vector<float> logits(static_cast<size_t>((end - begin) * runner_.vocab_size()));
    Run(begin, end, {}, {.logits = absl::MakeSpan(logits)});
    return logits;
  }

  // Copies every block to another one, whose old bytes are garbage, and spoils the former.
  void MoveBlocks() {
    const BlockId count = static_cast<BlockId>(blocks_.size());
    for (BlockId& block : blocks_) {
      const BlockId to = 2 * count - 1 - block;
      memory_.Fill(to, 0xff);
      memory_.Write(to, memory_.Read(block));
      memory_.Fill(block, 0xff);
      block = to;
    }
  }

  DeviceTestMemory& memory() { return memory_; }
  const std::vector<BlockId>& blocks() const { return blocks_; }
  // The layer group of the block that `blocks` has at this index.
  int32_t GroupOf(size_t index) const { return static_cast<int32_t>(index) / stride_; }

 private:
  CudaRunner& runner_;
  const std::vector<int32_t> tokens_;
  const int32_t stride_;
  std::vector<BlockId> blocks_;
  SequenceSlice slice_;
  DeviceTestMemory memory_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_SMALL_MODELS_H_
