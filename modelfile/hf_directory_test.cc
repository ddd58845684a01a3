// Hugging Face directories: what is read from them, and the error of each kind of damage.
#include "modelfile/hf_directory.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/json_reader.h"
#include "modelfile/limits.h"
#include "modelfile/testing/error_text.h"
#include "modelfile/testing/tiny_hf.h"

namespace baton::modelfile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TinyLlamaOptions Floats(bool tied_head = true) {
  return {.layers = 1,
          .hidden_size = 32,
          .heads = 2,
          .kv_heads = 1,
          .ffn_size = 32,
          .matrix_type = TensorType::kBf16,
          .embedding_type = TensorType::kF16,
          .tied_head = tied_head};
}

HfContents Tiny() { return TinyHf(Floats()); }

std::string HfError(const HfContents& contents, absl::StatusCode code = kInvalid) {
  return ErrorText(ParseHf(contents), code);
}

// Replaces one member of one file's object. A pointer with '/' leads into nested objects.
HfContents With(const std::string& file, const std::string& pointer, const Json& value) {
  HfContents contents = Tiny();
  Json json = Json::parse(contents.at(file));
  json[Json::json_pointer("/" + pointer)] = value;
  contents[file] = json.dump();
  return contents;
}
HfContents WithConfig(const std::string& key, const Json& value) { return With("config.json", key, value); }
HfContents WithoutKey(const std::string& file, const std::string& key) {
  HfContents contents = Tiny();
  Json json = Json::parse(contents.at(file));
  json.erase(key);
  contents[file] = json.dump();
  return contents;
}

TEST(HfDirectory, ReadsConfigTokenizerAndTensors) {
  const auto file = ParseHf(Tiny());
  ASSERT_TRUE(file.ok()) << file.status();
  const ModelConfig& config = (*file)->config();
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.hidden_size, 32);
  EXPECT_EQ(config.layers, 1);
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.kv_heads, 1);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn_size, 32);
  EXPECT_EQ(config.vocab_size, kTinyVocabSize);
  EXPECT_EQ(config.context_length, 256);
  EXPECT_EQ(config.rope_theta, 10000.0f);
  EXPECT_EQ(config.rms_norm_eps, 1e-5f);
  EXPECT_FALSE(config.rope_interleaved);
  const TokenizerSpec& tokenizer = (*file)->tokenizer();
  EXPECT_EQ(tokenizer.model, "gpt2");
  EXPECT_EQ(tokenizer.pre_tokenizer, "smollm");
  EXPECT_EQ(tokenizer.tokens.size(), 258u);
  EXPECT_EQ(tokenizer.token_types[kTinyBos], TokenType::kControl);
  EXPECT_EQ(tokenizer.bos_id, kTinyBos);
  EXPECT_EQ(tokenizer.eos_id, kTinyEos);
  EXPECT_THAT(tokenizer.eos_ids, ElementsAre(kTinyEos));
  EXPECT_FALSE(tokenizer.add_bos);
  ASSERT_EQ((*file)->tensors().size(), 11u);
  const TensorView* query = (*file)->Find("blk.0.attn_q.weight");
  ASSERT_NE(query, nullptr);
  EXPECT_EQ(query->type, TensorType::kBf16);
  EXPECT_EQ(query->rows, 32);
  EXPECT_EQ(query->cols, 32);
  EXPECT_EQ((*file)->Find("blk.0.attn_norm.weight")->rows, 1);
  EXPECT_EQ((*file)->Find("output.weight"), nullptr);
}

TEST(HfDirectory, AHeadOfItsOwnIsReadAndATiedOneLeftOut) {
  EXPECT_NE((*ParseHf(TinyHf(Floats(false))))->Find("output.weight"), nullptr);
  HfContents contents = TinyHf(Floats(false));
  Json config = Json::parse(contents["config.json"]);
  config["tie_word_embeddings"] = true;
  contents["config.json"] = config.dump();
  EXPECT_EQ((*ParseHf(contents))->Find("output.weight"), nullptr);
  EXPECT_THAT(HfError(WithConfig("tie_word_embeddings", false)), HasSubstr("lm_head.weight"));
}

TEST(HfDirectory, ReadsShardsByTheirIndexAndWithoutOne) {
  const std::vector<SafetensorsSpec> tensors = TinyHfTensors(Floats());
  const size_t half = tensors.size() / 2;
  HfContents contents = Tiny();
  contents.erase("model.safetensors");
  contents["a.safetensors"] = WriteSafetensors({tensors.begin(), tensors.begin() + static_cast<ptrdiff_t>(half)});
  contents["b.safetensors"] = WriteSafetensors({tensors.begin() + static_cast<ptrdiff_t>(half), tensors.end()});
  const Digest128 whole = (*ParseHf(Tiny()))->WeightsDigest();
  EXPECT_EQ((*ParseHf(contents))->WeightsDigest(), whole);
  Json map;
  for (size_t i = 0; i < tensors.size(); ++i) map[tensors[i].name] = i < half ? "a.safetensors" : "b.safetensors";
  const auto with_index = [&](const Json& weight_map) {
    HfContents indexed = contents;
    indexed["model.safetensors.index.json"] =
        Json({{"metadata", {{"total_size", 1}}}, {"weight_map", weight_map}}).dump();
    return indexed;
  };
  EXPECT_EQ((*ParseHf(with_index(map)))->WeightsDigest(), whole);
  Json wrong = map;
  wrong[tensors[0].name] = "b.safetensors";
  EXPECT_THAT(HfError(with_index(wrong)), HasSubstr("a.safetensors: tensor"));
  wrong = map;
  wrong["model.absent.weight"] = "a.safetensors";
  EXPECT_THAT(HfError(with_index(wrong)), HasSubstr("lacks tensor model.absent.weight"));
  wrong = map;
  wrong[tensors[0].name] = "c.safetensors";
  HfError(with_index(wrong), kInvalid);
  for (const char* escape : {"../a.safetensors", "/etc/a.safetensors", "x/a.safetensors", ".a.safetensors", "a.bin", "",
                             "a b.safetensors", "a\n.safetensors"}) {
    wrong[tensors[0].name] = escape;
    EXPECT_THAT(HfError(with_index(wrong)), HasSubstr("must be a plain name")) << escape;
  }
  wrong[tensors[0].name] = 7;
  EXPECT_THAT(HfError(with_index(wrong)), HasSubstr("must be a plain name"));
  contents["b.safetensors"] = contents["a.safetensors"];
  EXPECT_THAT(HfError(contents), HasSubstr("is in another file too"));
}

// JSON may be followed by any number of spaces.
HfContents Padded(HfContents contents, const std::string& file, size_t bytes) {
  contents.at(file).resize(bytes, ' ');
  return contents;
}

TEST(HfDirectory, FilesOfJsonAtAndOverTheirLimits) {
  EXPECT_TRUE(ParseHf(Padded(Tiny(), "config.json", kMaxHfJsonBytes)).ok());
  EXPECT_THAT(HfError(Padded(Tiny(), "config.json", kMaxHfJsonBytes + 1)), HasSubstr("limit 1048576"));
  EXPECT_THAT(HfError(Padded(Tiny(), "generation_config.json", kMaxHfJsonBytes + 1)), HasSubstr("limit 1048576"));
  // The others take seconds to read at their limits.
  HfContents indexed = Tiny();
  indexed["model.safetensors.index.json"] = "{}";
  EXPECT_THAT(HfError(Padded(indexed, "model.safetensors.index.json", kMaxHfIndexBytes + 1)),
              HasSubstr("limit 67108864"));
  EXPECT_THAT(HfError(Padded(Tiny(), "tokenizer.json", kMaxHfTokenizerBytes + 1)), HasSubstr("limit 134217728"));
}

TEST(HfDirectory, FilesOfWeightsAtAndOverTheirLimits) {
  HfContents contents = Tiny();
  contents["0.safetensors"] = contents.at("model.safetensors");
  contents.erase("model.safetensors");
  for (size_t i = 1; i < kMaxHfShards; ++i) contents[std::to_string(i) + ".safetensors"] = WriteSafetensors({});
  EXPECT_TRUE(ParseHf(contents).ok());
  contents["one_more.safetensors"] = WriteSafetensors({});
  EXPECT_THAT(HfError(contents), HasSubstr("1025 files, limit 1024"));

  const auto named = [](size_t name_bytes) {
    const std::string suffix = ".safetensors";
    const std::string name = std::string(name_bytes - suffix.size(), 'w') + suffix;
    HfContents renamed = Tiny();
    renamed[name] = renamed.at("model.safetensors");
    renamed.erase("model.safetensors");
    Json map;
    for (const SafetensorsSpec& tensor : TinyHfTensors(Floats())) map[tensor.name] = name;
    renamed["model.safetensors.index.json"] = Json({{"weight_map", map}}).dump();
    return renamed;
  };
  EXPECT_TRUE(ParseHf(named(kMaxHfFileNameBytes)).ok());
  EXPECT_THAT(HfError(named(kMaxHfFileNameBytes + 1)), HasSubstr("must be a plain name"));
}

TEST(HfDirectory, NeedsConfigAndWeightsButNoTokenizer) {
  HfContents contents = Tiny();
  contents.erase("tokenizer.json");
  contents.erase("tokenizer_config.json");
  contents.erase("generation_config.json");
  ASSERT_TRUE(ParseHf(contents).ok()) << ParseHf(contents).status();
  EXPECT_EQ((*ParseHf(contents))->tokenizer().model, "");
  contents.erase("model.safetensors");
  EXPECT_THAT(HfError(contents, absl::StatusCode::kNotFound), HasSubstr("model.safetensors"));
  EXPECT_THAT(HfError({}, absl::StatusCode::kNotFound), HasSubstr("config.json"));
}

TEST(HfDirectory, OpensFromTheFileSystemAndNamesThePathInErrors) {
  std::string folder = testing::TempDir() + "/baton_hf_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const auto& [name, text] : Tiny()) std::ofstream(folder + "/" + name, std::ios::binary) << text;
  const auto file = OpenModelFile(folder + "/");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->config().name, std::filesystem::path(folder).filename());
  EXPECT_EQ((*file)->WeightsDigest(), (*ParseHf(Tiny()))->WeightsDigest());
  std::filesystem::resize_file(folder + "/model.safetensors", 100);
  const std::string cut(OpenModelFile(folder).status().message());
  EXPECT_THAT(cut, HasSubstr(folder + ": model.safetensors: damaged safetensors file"));
  std::filesystem::remove_all(folder);
}

TEST(HfConfig, NamesTheKeyThatIsWrong) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
                          "max_position_embeddings"}) {
    EXPECT_THAT(HfError(WithoutKey("config.json", key)), HasSubstr(std::string("config.json: ") + key + " is missing"));
    for (const Json& bad : {Json(0), Json(-1), Json(1.5), Json("1"), Json(uint64_t{1} << 63), Json(int64_t{1} << 40)}) {
      EXPECT_THAT(HfError(WithConfig(key, bad)), HasSubstr(std::string("config.json: ") + key)) << bad;
    }
  }
  EXPECT_THAT(HfError(WithConfig("num_key_value_heads", 3)), HasSubstr("a multiple of num_key_value_heads 3"));
  EXPECT_THAT(HfError(WithConfig("hidden_size", 33)), HasSubstr("a multiple of num_attention_heads"));
  EXPECT_THAT(HfError(WithConfig("head_dim", 15)), HasSubstr("head_dim"));
  EXPECT_THAT(HfError(WithConfig("rms_norm_eps", 0)), HasSubstr("rms_norm_eps is 0"));
  EXPECT_THAT(HfError(WithConfig("rope_theta", 0.5)), HasSubstr("rope_theta is 0.5"));
  EXPECT_THAT(HfError(WithConfig("rope_theta", Json::array())), HasSubstr("must be a number"));
  EXPECT_THAT(HfError(WithConfig("tie_word_embeddings", 1)), HasSubstr("must be true or false"));
  EXPECT_THAT(HfError(With("generation_config.json", "eos_token_id", kTinyVocabSize)), HasSubstr("eos_token_id 258"));
  EXPECT_THAT(HfError(WithConfig("eos_token_id", "x")), HasSubstr("must be a token id"));
  EXPECT_THAT(HfError(WithoutKey("config.json", "model_type")), HasSubstr("model_type is missing"));
}

TEST(HfConfig, NamesWhatBatonDoesNotRun) {
  EXPECT_THAT(HfError(WithConfig("model_type", "mamba"), kUnimplemented), HasSubstr("model_type is \"mamba\""));
  EXPECT_THAT(HfError(WithConfig("attention_bias", true), kUnimplemented), HasSubstr("attention_bias"));
  EXPECT_THAT(HfError(WithConfig("hidden_act", "gelu"), kUnimplemented), HasSubstr("hidden_act"));
  EXPECT_THAT(HfError(WithConfig("quantization_config", {{"bits", 4}}), kUnimplemented),
              HasSubstr("quantization_config"));
  EXPECT_THAT(HfError(WithConfig("rope_scaling", {{"rope_type", "yarn"}}), kUnimplemented), HasSubstr("rope_type"));
  EXPECT_THAT(HfError(WithConfig("rope_scaling", {{"type", "linear"}}), kUnimplemented),
              HasSubstr("rope_scaling: type"));
}

TEST(HfConfig, ReadsRopeWhereEitherVersionOfTransformersPutsIt) {
  HfContents contents = WithoutKey("config.json", "rope_theta");
  EXPECT_EQ((*ParseHf(contents))->config().rope_theta, 10000.0f);
  EXPECT_EQ((*ParseHf(WithConfig("rope_theta", 500000.0)))->config().rope_theta, 500000.0f);
  const auto file = ParseHf(WithConfig("rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "default"}}));
  EXPECT_EQ((*file)->config().rope_theta, 1e6f);
}

TEST(HfConfig, EndTokensOfGenerationGoBeforeThoseOfTheConfiguration) {
  HfContents contents = WithConfig("eos_token_id", {2, 3});
  EXPECT_THAT((*ParseHf(contents))->tokenizer().eos_ids, ElementsAre(kTinyEos));
  contents.erase("generation_config.json");
  EXPECT_THAT((*ParseHf(contents))->tokenizer().eos_ids, ElementsAre(kTinyEos, 2, 3));
  contents["generation_config.json"] = R"({"eos_token_id": [5, 0]})";
  EXPECT_THAT((*ParseHf(contents))->tokenizer().eos_ids, ElementsAre(kTinyEos, 5));
}

TEST(HfGeneration, SamplesOnlyWhereItSaysSo) {
  HfContents contents = Tiny();
  contents["generation_config.json"] = R"({"temperature": 0.6, "top_k": 5, "repetition_penalty": 1.5})";
  SamplingDefaults defaults = (*ParseHf(contents))->sampling_defaults();
  EXPECT_EQ(defaults.temperature, std::nullopt);
  EXPECT_EQ(defaults.top_k, std::nullopt);
  EXPECT_EQ(defaults.repetition_penalty, 1.5f);
  contents["generation_config.json"] = R"({"do_sample": true, "top_k": 64, "top_p": 0.95, "min_p": 0.1})";
  defaults = (*ParseHf(contents))->sampling_defaults();
  EXPECT_EQ(defaults.temperature, 1.0f);
  EXPECT_EQ(defaults.top_k, 64);
  EXPECT_EQ(defaults.top_p, 0.95f);
  EXPECT_EQ(defaults.min_p, 0.1f);
  EXPECT_THAT(HfError(With("generation_config.json", "do_sample", "yes")),
              HasSubstr("generation_config.json: do_sample"));
  contents["generation_config.json"] = R"({"do_sample": true, "top_k": -1})";
  EXPECT_THAT(HfError(contents), HasSubstr("top_k is -1"));
}

TEST(HfWeights, NamesWhatItCannotUse) {
  const auto with = [](const SafetensorsSpec& tensor) {
    std::vector<SafetensorsSpec> tensors = TinyHfTensors(Floats());
    tensors.push_back(tensor);
    HfContents contents = Tiny();
    contents["model.safetensors"] = WriteSafetensors(tensors);
    return contents;
  };
  EXPECT_THAT(HfError(with({"model.layers.0.self_attn.q_proj.bias", "F32", {1}, "1234"}), kUnimplemented),
              HasSubstr("q_proj.bias"));
  for (const char* name : {"model.layers.1.mlp.up_proj.weight", "model.layers.00.mlp.up_proj.weight",
                           "model.layers.-1.mlp.up_proj.weight", "model.layers.x", "model.layers.", "other"}) {
    EXPECT_THAT(HfError(with({name, "F32", {1}, "1234"}), kUnimplemented), HasSubstr("is not part of a plain model"));
  }
  HfContents untied = with({"lm_head.weight", "I8", {2, 2}, "1234"});
  Json config = Json::parse(untied["config.json"]);
  config["tie_word_embeddings"] = false;
  untied["config.json"] = config.dump();
  EXPECT_THAT(HfError(untied, kUnimplemented), HasSubstr("is of type I8"));
  EXPECT_TRUE(ParseHf(with({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, "1234"})).ok());
}

}  // namespace
}  // namespace baton::modelfile
