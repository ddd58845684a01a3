#include "tests/cuda/bench/bench_shape.h"

#include <algorithm>
#include <iterator>

namespace baton::engine::cuda {
namespace {

BenchShape Llama8b() {
  return {.name = "llama-8b",
          .model = {.hidden = 4096,
                    .layers = 32,
                    .heads = 32,
                    .kv_heads = 8,
                    .head_dim = 128,
                    .ffn = 14336,
                    .vocab = 128256,
                    .context = 8192},
          .weights = {BenchWeights::kBf16, BenchWeights::kInt8, BenchWeights::kInt4},
          .batches = {1, 16, 64, 256},
          .context = 512,
          .prompts = {512, 2048, 8192},
          .memory_bytes = size_t{2} << 30,
          .rounds = 10,
          .prompt_rounds = 3};
}

BenchShape SmolLm2() {
  BenchShape shape = Llama8b();
  shape.name = "smollm2-135m";
  shape.model = {.hidden = 576,
                 .layers = 30,
                 .heads = 9,
                 .kv_heads = 3,
                 .head_dim = 64,
                 .ffn = 1536,
                 .vocab = 49152,
                 .context = 8192};
  shape.batches = {1, 64};
  return shape;
}

BenchShape Tiny() {
  return {
      .name = "tiny",
      .model =
          {.hidden = 64, .layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 96, .vocab = 80, .context = 64},
      .weights = {BenchWeights::kBf16, BenchWeights::kInt8, BenchWeights::kInt4},
      .batches = {1, 3},
      .context = 20,
      .prompts = {16, 40},
      .memory_bytes = size_t{64} << 10,
      .rounds = 2,
      .prompt_rounds = 1};
}

}  // namespace

std::optional<BenchShape> BenchShapeNamed(std::string_view name, bool quick) {
  const BenchShape shapes[] = {Llama8b(), SmolLm2(), Tiny()};
  const auto* const found =
      std::find_if(std::begin(shapes), std::end(shapes), [&](const BenchShape& one) { return one.name == name; });
  if (found == std::end(shapes)) return std::nullopt;
  BenchShape shape = *found;
  if (!quick) return shape;
  shape.weights = {BenchWeights::kBf16};
  shape.batches.resize(1);
  shape.prompts.resize(1);
  return shape;
}

}  // namespace baton::engine::cuda
