#include "bench/engine/model_cost.h"

#include "engine/model/synthetic_model.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

// 10 bytes and 20 multiply-adds of layers, 3 and 4 of the head.
constexpr ModelCost kCost{
    .layer_bytes = 10, .layer_macs = 20, .head_bytes = 3, .head_macs = 4, .kv_token_bytes = 7, .attention_macs = 2};

MachineLimits Limits(double bytes, double int8_macs, double fp32_macs) {
  MachineLimits limits;
  limits.read_bytes_per_s = bytes;
  limits.instructions = {{"a", "int8", int8_macs}, {"b", "fp32", fp32_macs}};
  return limits;
}

TEST(ModelCost, CountsEveryMatrixOnce) {
  engine::SyntheticSpec spec;
  const auto file = engine::MakeSyntheticModel(spec);
  const ModelCost cost = CostOf(*file, {}, 100);
  const int64_t attention = int64_t{spec.hidden_size} * spec.head_dim * (2 * spec.heads + 2 * spec.kv_heads);
  const int64_t ffn = int64_t{3} * spec.hidden_size * spec.ffn_size;
  EXPECT_EQ(cost.layer_macs, spec.layers * (attention + ffn));
  EXPECT_EQ(cost.head_macs, int64_t{spec.vocab_size} * spec.hidden_size);
  // Q4_1 is 20 bytes for 32 weights, Q4_0 18, Q8_0 34.
  EXPECT_EQ(cost.layer_bytes, spec.layers * (attention * 20 + ffn * 18) / 32);
  EXPECT_EQ(cost.head_bytes, cost.head_macs * 34 / 32);
  EXPECT_EQ(cost.attention_macs, int64_t{2} * spec.layers * spec.heads * spec.head_dim);
  EXPECT_TRUE(cost.is_int8);
  EXPECT_EQ(CostOf(*file, {.numerics = engine::Numerics::kFp32}, 100).layer_bytes, cost.layer_macs * 4);
}

TEST(PrefillWork, ReadsTheLayersOnceAChunkAndTheHeadOnceAPrompt) {
  const Work work = PrefillWork(kCost, {.prompts = 2, .prompt_tokens = 5, .chunk_tokens = 4});
  EXPECT_EQ(work.bytes, 3 * 10 + 2 * 3 + 10 * 7);
  EXPECT_EQ(work.int8_macs, 10 * 20 + 2 * 4);
  EXPECT_EQ(work.float_macs, 2 * (1 + 2 + 3 + 4 + 5) * 2);
}

TEST(DecodeWork, ReadsEverythingOnceAStepAndEachStreamsContext) {
  const Work work = DecodeWork(kCost, {.streams = 3, .context_tokens = 8, .steps = 2});
  EXPECT_EQ(work.bytes, 2 * 13 + 3 * (9 + 10) * 7);
  EXPECT_EQ(work.int8_macs, 6 * 24);
  EXPECT_EQ(work.float_macs, 3 * (9 + 10) * 2);
}

TEST(PrefillWork, CountsTheWindowOfLayersThatSlide) {
  ModelCost cost = kCost;
  cost.layers = 2;
  cost.sliding_layers = 1;
  cost.window = 3;
  // One layer's rows see 1 + 2 + 3 + 4 + 5 tokens, the other's 1 + 2 + 3 + 3 + 3: 27 of two layers.
  EXPECT_EQ(PrefillWork(cost, {.prompts = 1, .prompt_tokens = 5, .chunk_tokens = 5}).float_macs, 27 / 2 * 2);
  // The next token sees 6 and 3.
  EXPECT_EQ(DecodeWork(cost, {.streams = 1, .context_tokens = 5, .steps = 1}).float_macs, (36 / 2 - 27 / 2) * 2);
}

TEST(LimitOf, IsTheLongerOfReadingAndMultiplying) {
  const Work work{.bytes = 100, .int8_macs = 40, .float_macs = 10};
  const LimitTime memory = LimitOf(work, Limits(10, 10, 10));
  EXPECT_EQ(memory.bound, "memory");
  EXPECT_DOUBLE_EQ(memory.seconds, 10);
  const LimitTime compute = LimitOf(work, Limits(100, 4, 2));
  EXPECT_EQ(compute.bound, "compute");
  EXPECT_DOUBLE_EQ(compute.seconds, 15);
}

}  // namespace
}  // namespace baton::bench
