// The arithmetic of the benchmark, and the files that it runs.
#include "tests/cuda/bench/model_bench.h"

#include <cmath>

#include "engine/kernels/packed_matrix.h"
#include "engine/model/transformer_weights.h"
#include "gtest/gtest.h"
#include "tests/cuda/bench/bench_shape.h"

namespace baton::engine::cuda {
namespace {

TEST(RandomModel, IsAModelOfItsShapeWithFiniteWeightsInEveryType) {
  const BenchShape shape = *BenchShapeNamed("tiny", false);
  for (const BenchWeights weights : shape.weights) {
    const auto file = MakeRandomModel(shape.model, weights);
    EXPECT_TRUE(CheckTransformerWeights(*file).ok()) << CheckTransformerWeights(*file);
    for (const modelfile::TensorView& tensor : file->tensors()) {
      std::vector<float> row(static_cast<size_t>(tensor.cols));
      kernels::DequantizeRow(tensor, tensor.rows - 1, row.data());
      double squares = 0;
      for (const float x : row) squares += x * x;
      const double size = std::sqrt(squares / static_cast<double>(row.size()));
      EXPECT_GT(size, 0.005) << tensor.name;
      EXPECT_LT(size, tensor.rows == 1 ? 1.1 : 0.07) << tensor.name;
    }
  }
}

// By hand: one layer of 32 x (32 + 32 + 32), 32 x 32, 2 * (64 x 32) and 32 x 64, and a head of 48 x 32.
TEST(ModelBench, CountsTheBytesAndProductsOfAStep) {
  const RandomShape shape{
      .hidden = 32, .layers = 1, .heads = 1, .kv_heads = 1, .head_dim = 32, .ffn = 64, .vocab = 48, .context = 64};
  const ModelWork work = WorkOf(*MakeRandomModel(shape, BenchWeights::kBf16));
  constexpr int64_t kLayer = 3 * 1024 + 1024 + 3 * 2048;
  constexpr int64_t kHead = 1536;
  EXPECT_EQ(work.layer_macs, kLayer);
  EXPECT_EQ(work.head_macs, kHead);
  EXPECT_EQ(work.weight_bytes, 2 * (kLayer + kHead));
  EXPECT_EQ(work.kv_token_bytes, 2 * 32 * 2);
  EXPECT_EQ(work.attention_macs, 2 * 32);
  EXPECT_EQ(DecodeBytes(work, 3, 9), 2 * (kLayer + kHead) + 3 * 10 * 128);
  // Rows of 1, 2, 3 tokens.
  EXPECT_DOUBLE_EQ(PrefillFlops(work, 3), 2.0 * (3 * kLayer + kHead + 6 * 64));
}

TEST(ModelBench, CountsScalesAmongTheBytes) {
  const RandomShape shape{
      .hidden = 32, .layers = 1, .heads = 1, .kv_heads = 1, .head_dim = 32, .ffn = 64, .vocab = 48, .context = 64};
  const auto bytes = [&](BenchWeights weights) { return WorkOf(*MakeRandomModel(shape, weights)).weight_bytes; };
  EXPECT_LT(bytes(BenchWeights::kInt4), bytes(BenchWeights::kInt8));
  EXPECT_LT(bytes(BenchWeights::kInt8), bytes(BenchWeights::kBf16));
  EXPECT_GT(bytes(BenchWeights::kInt8), bytes(BenchWeights::kBf16) / 2);
}

TEST(BenchShape, QuickLeavesMostOut) {
  const BenchShape quick = *BenchShapeNamed("llama-8b", true);
  EXPECT_EQ(quick.weights.size(), 1u);
  EXPECT_EQ(quick.batches, std::vector<int>{1});
  EXPECT_EQ(quick.prompts, std::vector<int>{512});
  EXPECT_FALSE(BenchShapeNamed("llama", false).has_value());
}

}  // namespace
}  // namespace baton::engine::cuda
