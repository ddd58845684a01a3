// What tests of the CPU model share: synthetic models between which every format and feature occurs.
#ifndef BATON_ENGINE_TESTING_SYNTHETIC_VARIANTS_H_
#define BATON_ENGINE_TESTING_SYNTHETIC_VARIANTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/random.h"
#include "engine/cpu_model.h"
#include "engine/model/synthetic_model.h"
#include "gtest/gtest.h"

namespace baton::engine {

inline constexpr uint64_t kSeed = 7001;

inline std::unique_ptr<ModelRunner> Load(const modelfile::ModelFile& file, const CpuModelOptions& options) {
  auto runner = LoadCpuModel(file, options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  return runner.ok() ? *std::move(runner) : nullptr;
}

inline std::vector<int32_t> RandomTokens(RandomSource& random, int count, int vocab) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab)));
  return tokens;
}

struct Variant {
  const char* name;
  SyntheticSpec spec;
  // Long tests take it with int8 KV too.
  bool with_int8_kv = false;
};

inline std::vector<Variant> Variants() {
  using modelfile::TensorType;
  return {
      {"q4_1 and q4_0", {}},
      {"q8_0, partners apart, two KV heads",
       {.seed = 2,
        .heads = 6,
        .kv_heads = 2,
        .rope_interleaved = false,
        .attention = TensorType::kQ8_0,
        .ffn = TensorType::kQ4_1,
        .embedding = TensorType::kQ4_0},
       true},
      {"f16 and bf16",
       {.seed = 3,
        .layers = 1,
        .heads = 3,
        .attention = TensorType::kF16,
        .ffn = TensorType::kBf16,
        .embedding = TensorType::kF16}},
      {"quantized and float mixed",
       {.seed = 4, .layers = 1, .attention = TensorType::kF32, .embedding = TensorType::kBf16}},
      {"gemma, q5_0, RoPE scaled",
       {.seed = 5,
        .heads = 4,
        .rope_interleaved = false,
        .rope_scaling_factor = 8.0f,
        .sliding_window = 100,
        .gemma = true,
        .attention = TensorType::kQ5_0,
        .ffn = TensorType::kQ5_0}},
      {"gemma, K formats, two KV heads, a window smaller than a tile of queries",
       {.seed = 6,
        .layers = 1,
        .hidden_size = 256,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 64,
        .ffn_size = 256,
        .sliding_window = 7,
        .gemma = true,
        .attention = TensorType::kQ4_K,
        .ffn = TensorType::kQ6_K,
        .embedding = TensorType::kQ5_K},
       true},
      {"fp8 with a scale for each row",
       {.seed = 10,
        .layers = 1,
        .heads = 4,
        .kv_heads = 2,
        .rope_interleaved = false,
        .attention = TensorType::kF8E4M3,
        .ffn = TensorType::kF8E4M3,
        .embedding = TensorType::kBf16}},
      {"fp8 with blocks, of which the last are smaller, in embedding and head too",
       {.seed = 11,
        .layers = 1,
        .hidden_size = 160,
        .heads = 5,
        .ffn_size = 288,
        .vocab_size = 144,
        .attention = TensorType::kF8E4M3,
        .ffn = TensorType::kF8E4M3,
        .embedding = TensorType::kF8E4M3,
        .fp8_blocks = true}},
      {"a window without the rest of gemma", {.seed = 8, .sliding_window = 33}},
      {"two groups of layers that slide, of two layers each",
       {.seed = 9, .layers = 6, .sliding_window = 40, .full_every = 3},
       true},
  };
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_SYNTHETIC_VARIANTS_H_
