// What the metadata may say: the range of every key, which keys must agree, and which variants Baton does not run.
#include "modelfile/gguf_config.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/limits.h"
#include "modelfile/model_file.h"
#include "modelfile/testing/smallest_llama.h"

namespace baton::modelfile {
namespace {

using ::testing::HasSubstr;

TEST(ModelConfig, OptionalKeysHaveTheirDefaults) {
  TinyLlamaOptions options = Smallest();
  options.kv_heads = options.heads;
  options.leave_out = {
      "llama.attention.head_count_kv", "llama.rope.freq_base",  "llama.rope.dimension_count", "general.name",
      "tokenizer.ggml.token_type",     "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id"};
  const auto bytes = TinyLlama(options);
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->config().kv_heads, options.heads);
  EXPECT_EQ((*file)->config().rope_theta, 10000.0f);
  EXPECT_EQ((*file)->config().name, "");
  EXPECT_EQ((*file)->tokenizer().token_types, std::vector<TokenType>(8, TokenType::kNormal));
  EXPECT_TRUE((*file)->tokenizer().merges.empty());
  EXPECT_EQ((*file)->tokenizer().bos_id, -1);
}

TEST(ModelConfig, RequiredKeysAreNamedWhenMissing) {
  for (const std::string key :
       {"general.architecture", "llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.tokens", "token_embd.weight"}) {
    EXPECT_THAT(ErrorOf(Without(key)), HasSubstr(key + " is missing"));
  }
}

struct SizeCase {
  const char* key;
  int32_t max;
};

TEST(ModelConfig, SizesArePositiveAndBounded) {
  const std::vector<SizeCase> cases = {
      {"llama.block_count", kMaxLayers},          {"llama.context_length", kMaxContextLength},
      {"llama.embedding_length", kMaxHiddenSize}, {"llama.feed_forward_length", kMaxFfnSize},
      {"llama.attention.head_count", kMaxHeads},  {"llama.attention.head_count_kv", kMaxHeads},
      {"llama.vocab_size", kMaxVocabSize}};
  for (const SizeCase& c : cases) {
    const std::string range = "must be 1 to " + std::to_string(c.max);
    EXPECT_THAT(ErrorOf(WithU32(c.key, 0)), HasSubstr(std::string(c.key) + " is 0, " + range));
    EXPECT_THAT(ErrorOf(WithU32(c.key, static_cast<uint32_t>(c.max) + 1)), HasSubstr(range)) << c.key;
    EXPECT_THAT(ErrorOf(WithU32(c.key, 0xFFFFFFFFu)), HasSubstr(range)) << c.key;
    // At the limit, another rule may refuse the file but not this one.
    const absl::Status at_limit = Parse(WithU32(c.key, static_cast<uint32_t>(c.max))).status();
    EXPECT_THAT(std::string(at_limit.message()), Not(HasSubstr(range))) << c.key;
    EXPECT_THAT(ErrorOf(WithString(c.key, "1")), HasSubstr(std::string(c.key) + " is of type string"));
  }
  EXPECT_TRUE(Parse(WithU32("llama.context_length", kMaxContextLength)).ok());
  EXPECT_TRUE(Parse(WithU32("llama.block_count", kMaxLayers)).ok());
}

TEST(ModelConfig, SizesMustDivide) {
  EXPECT_THAT(ErrorOf(WithU32("llama.attention.head_count_kv", 3)), HasSubstr("not a multiple"));
  EXPECT_THAT(ErrorOf(WithU32("llama.attention.head_count", 3)), HasSubstr("not a multiple"));
  EXPECT_THAT(ErrorOf(WithU32("llama.attention.head_count", 32)), HasSubstr("must be even"));
  TinyLlamaOptions options = Smallest({"llama.embedding_length", "llama.rope.dimension_count"});
  EXPECT_THAT(ErrorOf(TinyLlamaWriter(options).AddU32("llama.embedding_length", 64).Finish()),
              HasSubstr("token_embd.weight is 8 x 32"));
}

TEST(ModelConfig, HeadSizeAtAndOverTheLimit) {
  TinyLlamaOptions options = Smallest();
  options.heads = options.kv_heads = 1;
  options.hidden_size = kMaxHeadDim;
  EXPECT_TRUE(Parse(TinyLlama(options)).ok());
  options.hidden_size = kMaxHeadDim + 32;
  EXPECT_THAT(ErrorOf(TinyLlama(options)), HasSubstr("head size"));
}

TEST(ModelConfig, FloatsAreFiniteAndBounded) {
  const std::string eps = "llama.attention.layer_norm_rms_epsilon";
  const std::string theta = "llama.rope.freq_base";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const float over_eps = std::nextafter(static_cast<float>(kMaxNormEps), infinity);
  for (const float bad : {0.0f, -1e-5f, over_eps, nan, infinity}) {
    EXPECT_THAT(ErrorOf(WithF32(eps, bad)), HasSubstr(eps));
  }
  const float over_theta = std::nextafter(static_cast<float>(kMaxRopeTheta), infinity);
  for (const float bad : {0.0f, -1.0f, over_theta, nan, infinity}) {
    EXPECT_THAT(ErrorOf(WithF32(theta, bad)), HasSubstr(theta));
  }
  EXPECT_TRUE(Parse(WithF32(eps, std::nextafter(static_cast<float>(kMaxNormEps), 0.0f))).ok());
  EXPECT_TRUE(Parse(WithF32(theta, 1.0f)).ok());
  EXPECT_TRUE(Parse(WithF32(theta, std::nextafter(static_cast<float>(kMaxRopeTheta), 0.0f))).ok());
}

TEST(ModelConfig, VocabularyMustAgreeWithTokensAndEmbedding) {
  EXPECT_THAT(ErrorOf(WithU32("llama.vocab_size", 7)), HasSubstr("llama.vocab_size is 7, token_embd.weight has 8"));
  const TinyLlamaOptions options = Smallest({"tokenizer.ggml.tokens"});
  const std::vector<std::string> tokens(7, "t");
  EXPECT_THAT(ErrorOf(TinyLlamaWriter(options).AddStringArray("tokenizer.ggml.tokens", tokens).Finish()),
              HasSubstr("tokenizer.ggml.tokens has 7 tokens, token_embd.weight has 8"));
}

TEST(ModelConfig, WhatBatonDoesNotRunIsNamed) {
  EXPECT_THAT(ErrorOf(WithString("general.architecture", "qwen3"), kUnimplemented),
              HasSubstr("architecture qwen3: Baton runs llama and gemma3"));
  EXPECT_THAT(ErrorOf(WithString("llama.rope.scaling.type", "yarn"), kUnimplemented), HasSubstr("yarn"));
  EXPECT_THAT(ErrorOf(WithF32("llama.rope.scaling.factor", 4), kUnimplemented), HasSubstr("scales RoPE"));
  EXPECT_THAT(ErrorOf(WithF32("llama.rope.scale_linear", 4), kUnimplemented), HasSubstr("scales RoPE"));
  EXPECT_THAT(ErrorOf(WithU32("llama.rope.dimension_count", 8), kUnimplemented), HasSubstr("dimension_count is 8"));
  EXPECT_THAT(ErrorOf(WithU32("llama.attention.value_length", 32), kUnimplemented), HasSubstr("value_length is 32"));
  EXPECT_THAT(ErrorOf(WithU32("llama.attention.sliding_window", 8), kUnimplemented), HasSubstr("sliding_window is 8"));
  EXPECT_THAT(ErrorOf(WithU32("llama.expert_count", 8), kUnimplemented), HasSubstr("expert_count is 8"));
  EXPECT_THAT(ErrorOf(WithU32("split.count", 2), kUnimplemented), HasSubstr("split.count is 2"));
  EXPECT_TRUE(Parse(WithString("llama.rope.scaling.type", "none")).ok());
  EXPECT_TRUE(Parse(WithU32("llama.expert_count", 0)).ok());
  EXPECT_TRUE(Parse(WithU32("split.count", 1)).ok());
}

TEST(ModelConfig, HeadsNeedNotFillTheHiddenSize) {
  TinyLlamaOptions options = Smallest({"llama.rope.dimension_count"});
  const auto bytes = TinyLlamaWriter(options).AddU32("llama.attention.key_length", 64).Finish();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->config().head_dim, 64);
  EXPECT_EQ((*file)->config().attention_scale, 0.125f);
}

TEST(ModelConfig, LinearRopeScalingIsRead) {
  const auto scaled = [](float factor) {
    return TinyLlamaWriter(Smallest())
        .AddString("llama.rope.scaling.type", "linear")
        .AddF32("llama.rope.scaling.factor", factor);
  };
  const auto bytes = scaled(8).Finish();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->config().rope_scaling_factor, 8.0f);
  EXPECT_THAT(ErrorOf(scaled(0.5f).Finish()), HasSubstr("rope.scaling.factor is 0.5"));
  EXPECT_THAT(ErrorOf(scaled(static_cast<float>(2 * kMaxRopeScalingFactor)).Finish()), HasSubstr("must be 1 to"));
  EXPECT_THAT(ErrorOf(WithString("llama.rope.scaling.type", "linear")), HasSubstr("rope.scaling.factor is missing"));
  EXPECT_THAT(ErrorOf(scaled(8).AddF32("llama.rope.scaling.attn_factor", 1).Finish(), kUnimplemented),
              HasSubstr("attn_factor"));
}

// The keys of gemma-3-270m's file with 12 layers. Most tensors are left out, because only the engine asks for them.
GgufWriter Gemma() {
  GgufWriter writer;
  writer.AddString("general.architecture", "gemma3")
      .AddU32("gemma3.block_count", 12)
      .AddU32("gemma3.context_length", 64)
      .AddU32("gemma3.embedding_length", 64)
      .AddU32("gemma3.feed_forward_length", 32)
      .AddU32("gemma3.attention.head_count", 4)
      .AddU32("gemma3.attention.head_count_kv", 1)
      .AddU32("gemma3.attention.key_length", 256)
      .AddU32("gemma3.attention.value_length", 256)
      .AddF32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f)
      .AddF32("gemma3.rope.freq_base", 1e6f);
  writer.AddF32Tensor("token_embd.weight", 2, 64, std::vector<float>(128));
  writer.AddF32Tensor("blk.11.post_ffw_norm.weight", 1, 64, std::vector<float>(64));
  return writer;
}

TEST(Gemma3Config, HasWhatTheFamilySharesAndTheFileDoesNotSay) {
  const auto bytes = Gemma().AddU32("gemma3.attention.sliding_window", 16).Finish();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const ModelConfig& config = (*file)->config();
  EXPECT_EQ(config.architecture, "gemma3");
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.attention_scale, 0.0625f);
  EXPECT_EQ(config.embedding_scale, 8.0f);
  EXPECT_EQ(config.activation, Activation::kGeGluTanh);
  EXPECT_TRUE(config.query_key_norm);
  EXPECT_TRUE(config.post_norms);
  EXPECT_FALSE(config.norm_weight_plus_one);
  EXPECT_FALSE(config.rope_interleaved);
  EXPECT_EQ(config.rope_theta, 1e6f);
  EXPECT_EQ(config.sliding_rope_theta, 10000.0f);
  EXPECT_EQ(config.sliding_window, 16);
  for (int32_t i = 0; i < 12; ++i) EXPECT_EQ(config.Slides(i), i != 5 && i != 11) << i;
}

TEST(Gemma3Config, WithoutAWindowNoLayerSlides) {
  const auto bytes = Gemma().Finish();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->config().sliding_window, 0);
  EXPECT_FALSE((*file)->config().Slides(0));
}

TEST(Gemma3Config, TheFileMayNameThePatternAndTheBase) {
  const auto window = [] { return Gemma().AddU32("gemma3.attention.sliding_window", 16); };
  const std::string key = "gemma3.attention.sliding_window_pattern";
  const auto every_third = window().AddU32(key, 3).AddF32("gemma3.rope.freq_base_swa", 500).Finish();
  const auto file = Parse(every_third);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->config().sliding_rope_theta, 500.0f);
  for (int32_t i = 0; i < 12; ++i) EXPECT_EQ((*file)->config().Slides(i), i % 3 != 2) << i;

  const auto flags = [&](uint64_t count) {
    std::vector<uint8_t> payload;
    AppendLittleEndian(&payload, static_cast<uint32_t>(GgufType::kBool));
    AppendLittleEndian(&payload, count);
    for (uint64_t i = 0; i < count; ++i) payload.push_back(i == 2 ? 1 : 0);
    return window().AddRaw(key, static_cast<uint32_t>(GgufType::kArray), payload).Finish();
  };
  const auto third_only = flags(12);
  const auto flagged = Parse(third_only);
  ASSERT_TRUE(flagged.ok()) << flagged.status();
  for (int32_t i = 0; i < 12; ++i) EXPECT_EQ((*flagged)->config().Slides(i), i == 2) << i;
  EXPECT_THAT(ErrorOf(flags(11)), HasSubstr(key + " is array of 11 bool"));
  EXPECT_THAT(ErrorOf(window().AddU32(key, 0).Finish()), HasSubstr(key + " is 0"));
}

TEST(Gemma3Config, SoftCapsAndForeignTensorsAreRefused) {
  for (const std::string key : {"gemma3.attn_logit_softcapping", "gemma3.final_logit_softcapping"}) {
    EXPECT_THAT(ErrorOf(Gemma().AddF32(key, 30).Finish(), kUnimplemented), HasSubstr(key + " is 30"));
    const auto off = Gemma().AddF32(key, 0).Finish();
    EXPECT_TRUE(Parse(off).ok());
  }
  const auto bytes = Gemma().AddF32Tensor("blk.0.attn_q.bias", 1, 1, std::vector<float>{1}).Finish();
  EXPECT_THAT(ErrorOf(bytes, kUnimplemented), HasSubstr("tensor blk.0.attn_q.bias is not part of a plain gemma3"));
}

TEST(ModelConfig, TensorsThatTheEngineWouldIgnoreAreRefused) {
  for (const std::string name :
       {"rope_freqs.weight", "blk.0.attn_q.bias", "blk.1.attn_q.weight", "blk.00.attn_q.weight", "blk.-1.attn_q.weight",
        "blk.0attn_q.weight", "blk.0.", "blk.", "blk.99999999999.x"}) {
    const auto bytes = TinyLlamaWriter(Smallest()).AddF32Tensor(name, 1, 1, std::vector<float>{1}).Finish();
    EXPECT_THAT(ErrorOf(bytes, kUnimplemented), HasSubstr("tensor " + name));
  }
}

TEST(TokenizerSpec, AbsentTokenizerLeavesItEmpty) {
  TinyLlamaOptions options = Smallest();
  options.tokenizer = false;
  const auto bytes = TinyLlama(options);
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tokenizer().model, "");
  EXPECT_EQ((*file)->config().vocab_size, 8);
}

TEST(TokenizerSpec, IdsMustBeInTheVocabulary) {
  for (const std::string key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"}) {
    EXPECT_THAT(ErrorOf(WithU32(key, 8)), HasSubstr(key + " is 8, the vocabulary has 8"));
    EXPECT_TRUE(Parse(WithU32(key, 7)).ok()) << key;
  }
}

TEST(TokenizerSpec, AddBosNeedsABos) {
  TinyLlamaOptions options = Smallest();
  EXPECT_TRUE(Parse(TinyLlamaWriter(options).AddBool("tokenizer.ggml.add_bos_token", true).Finish()).ok());
  options.leave_out = {"tokenizer.ggml.bos_token_id"};
  EXPECT_THAT(ErrorOf(TinyLlamaWriter(options).AddBool("tokenizer.ggml.add_bos_token", true).Finish()),
              HasSubstr("add_bos_token"));
}

TEST(TokenizerSpec, TokenTypesMustMatchTheTokens) {
  const TinyLlamaOptions options = Smallest({"tokenizer.ggml.token_type"});
  const auto typed = [&](const std::vector<int32_t>& types) {
    return TinyLlamaWriter(options).AddI32Array("tokenizer.ggml.token_type", types).Finish();
  };
  EXPECT_TRUE(Parse(typed({1, 2, 3, 4, 5, 6, 1, 1})).ok());
  EXPECT_THAT(ErrorOf(typed({1, 1, 1, 1, 1, 1, 1})), HasSubstr("token_type is array of 7 i32"));
  EXPECT_THAT(ErrorOf(typed({1, 1, 0, 1, 1, 1, 1, 1})), HasSubstr("of token 2 must"));
  EXPECT_THAT(ErrorOf(typed({1, 1, 1, 7, 1, 1, 1, 1})), HasSubstr("of token 3 must"));
  EXPECT_THAT(ErrorOf(typed({-1, 1, 1, 7, 1, 1, 1, 1})), HasSubstr("of token 0 must"));
}

TEST(TokenizerSpec, TextsAtAndOverTheirLimits) {
  const TinyLlamaOptions options = Smallest({"tokenizer.ggml.tokens", "tokenizer.ggml.merges"});
  const auto with = [&](size_t token_bytes, size_t merge_bytes) {
    std::vector<std::string> tokens(8, "t");
    tokens[3] = std::string(token_bytes, 'x');
    return TinyLlamaWriter(options)
        .AddStringArray("tokenizer.ggml.tokens", tokens)
        .AddStringArray("tokenizer.ggml.merges", std::vector<std::string>{std::string(merge_bytes, 'y')})
        .Finish();
  };
  constexpr size_t kMaxMergeBytes = 2 * kMaxTokenBytes + 1;
  EXPECT_TRUE(Parse(with(kMaxTokenBytes, kMaxMergeBytes)).ok());
  EXPECT_THAT(ErrorOf(with(kMaxTokenBytes + 1, 1)), HasSubstr("token 3 has 1025 bytes"));
  EXPECT_THAT(ErrorOf(with(1, kMaxMergeBytes + 1)), HasSubstr("merge 0 has 2050 bytes"));
  EXPECT_TRUE(Parse(WithString("tokenizer.chat_template", std::string(kMaxChatTemplateBytes, 'z'))).ok());
  EXPECT_THAT(ErrorOf(WithString("tokenizer.chat_template", std::string(kMaxChatTemplateBytes + 1, 'z'))),
              HasSubstr("chat_template has 262145 bytes"));
}

TEST(TokenizerSpec, MergesAtAndOverTheirLimit) {
  const TinyLlamaOptions options = Smallest({"tokenizer.ggml.merges"});
  std::vector<std::string> merges(kMaxMerges, "");
  EXPECT_TRUE(Parse(TinyLlamaWriter(options).AddStringArray("tokenizer.ggml.merges", merges).Finish()).ok());
  merges.emplace_back();
  EXPECT_THAT(ErrorOf(TinyLlamaWriter(options).AddStringArray("tokenizer.ggml.merges", merges).Finish()),
              HasSubstr("limit 2097152"));
}

TEST(TokenizerSpec, VocabularyAtAndOverTheLimit) {
  TinyLlamaOptions options = {.layers = 1, .hidden_size = 4, .heads = 1, .kv_heads = 1, .ffn_size = 4};
  options.matrix_type = options.embedding_type = TensorType::kF16;
  options.tokenizer = false;
  options.vocab_size = kMaxVocabSize;
  EXPECT_TRUE(Parse(TinyLlama(options)).ok());
  options.vocab_size = kMaxVocabSize + 1;
  EXPECT_THAT(ErrorOf(TinyLlama(options)), HasSubstr("token_embd.weight is 1048577 x 4"));
}

}  // namespace
}  // namespace baton::modelfile
