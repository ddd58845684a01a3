// Gemma 3's config.json in both spellings, and its tensor names.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/hf_config.h"
#include "modelfile/tensor_names.h"
#include "modelfile/testing/error_text.h"

namespace baton::modelfile {
namespace {

using ::testing::HasSubstr;

Json Config() {
  return Json::parse(R"({"model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 7,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 96, "vocab_size": 300,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 64, "sliding_window": 16, "attn_logit_softcapping": null})");
}

std::string GemmaError(const std::string& key, const Json& value, absl::StatusCode code) {
  Json config = Config();
  config[key] = value;
  return ErrorText(ReadHfConfig(config), code);
}

TEST(HfGemma3, ReadsWhatAllSizesShareAndTheirDefaults) {
  const auto config = ReadHfConfig(Config());
  ASSERT_TRUE(config.ok()) << config.status();
  const ModelConfig& model = config->model;
  EXPECT_EQ(model.architecture, "gemma3");
  EXPECT_EQ(model.head_dim, 32);
  EXPECT_EQ(model.attention_scale, 0.125f);
  EXPECT_EQ(model.embedding_scale, 8.0f);
  EXPECT_EQ(model.activation, Activation::kGeGluTanh);
  EXPECT_TRUE(model.query_key_norm && model.post_norms && model.norm_weight_plus_one);
  EXPECT_FALSE(model.rope_interleaved);
  EXPECT_EQ(model.rope_theta, 1e6f);
  EXPECT_EQ(model.sliding_rope_theta, 1e4f);
  EXPECT_EQ(model.sliding_window, 16);
  EXPECT_THAT(model.sliding_layers, testing::ElementsAre(true, true, true, true, true, false, true));
  EXPECT_EQ(config->tied_head, true);
}

TEST(HfGemma3, ReadsRopeAndLayersInEitherSpelling) {
  Json config = Config();
  config["rope_theta"] = 5e5;
  config["rope_local_base_freq"] = 2e4;
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  config["sliding_window_pattern"] = 2;
  ModelConfig model = ReadHfConfig(config)->model;
  EXPECT_EQ(model.rope_theta, 5e5f);
  EXPECT_EQ(model.sliding_rope_theta, 2e4f);
  EXPECT_EQ(model.rope_scaling_factor, 8.0f);
  EXPECT_THAT(model.sliding_layers, testing::ElementsAre(true, false, true, false, true, false, true));
  config = Config();
  config["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 3e5}}},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}};
  config["layer_types"] = Json::array();
  for (int i = 0; i < 7; ++i) config["layer_types"].push_back(i == 0 ? "full_attention" : "sliding_attention");
  model = ReadHfConfig(config)->model;
  EXPECT_EQ(model.rope_theta, 3e5f);
  EXPECT_EQ(model.sliding_rope_theta, 3e4f);
  EXPECT_EQ(model.rope_scaling_factor, 4.0f);
  EXPECT_THAT(model.sliding_layers, testing::ElementsAre(false, true, true, true, true, true, true));
}

TEST(HfGemma3, RefusesVariantsAndDamage) {
  EXPECT_THAT(GemmaError("final_logit_softcapping", 30.0, kUnimplemented), HasSubstr("final_logit_softcapping"));
  EXPECT_THAT(GemmaError("hidden_activation", "silu", kUnimplemented), HasSubstr("hidden_activation"));
  EXPECT_THAT(GemmaError("use_bidirectional_attention", true, kUnimplemented), HasSubstr("bidirectional"));
  EXPECT_THAT(GemmaError("rope_scaling", {{"rope_type", "yarn"}}, kUnimplemented), HasSubstr("rope_type"));
  EXPECT_THAT(GemmaError("rope_scaling", {{"rope_type", "linear"}}, kInvalid), HasSubstr("factor is missing"));
  EXPECT_THAT(GemmaError("rope_parameters", Json::object(), kInvalid), HasSubstr("full_attention is missing"));
  EXPECT_THAT(GemmaError("layer_types", Json::array({"full_attention"}), kInvalid), HasSubstr("layer_types"));
  EXPECT_THAT(GemmaError("sliding_window", 0, kInvalid), HasSubstr("sliding_window"));
}

TEST(HfGemma3, NamesItsNorms) {
  const ModelConfig model = ReadHfConfig(Config())->model;
  EXPECT_EQ(*EngineTensorName("model.layers.6.self_attn.q_norm.weight", model), "blk.6.attn_q_norm.weight");
  EXPECT_EQ(*EngineTensorName("model.layers.0.post_attention_layernorm.weight", model),
            "blk.0.post_attention_norm.weight");
  EXPECT_EQ(*EngineTensorName("model.layers.0.pre_feedforward_layernorm.weight", model), "blk.0.ffn_norm.weight");
  EXPECT_FALSE(EngineTensorName("model.layers.7.self_attn.q_norm.weight", model).ok());
}

}  // namespace
}  // namespace baton::modelfile
