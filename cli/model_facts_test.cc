// What `baton inspect` says about models that Baton serves, that it does not serve, and that are damaged.
#include "cli/model_facts.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/model_loading.h"
#include "cli/model_report.h"
#include "engine/cpu_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/json_reader.h"
#include "modelfile/testing/tiny_hf.h"
#include "modelfile/testing/tiny_llama.h"

namespace baton::cli {
namespace {

using modelfile::TinyLlamaOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMiB = 1 << 20;

// The engine takes heads of 32.
TinyLlamaOptions Servable() { return {.hidden_size = 64, .heads = 2, .kv_heads = 1, .context_length = 256}; }

class ModelFactsTest : public ::testing::Test {
 protected:
  ~ModelFactsTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::vector<uint8_t>& bytes) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  std::string Write(const std::string& name, const modelfile::HfContents& contents) const {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directory(path);
    for (const auto& [file, text] : contents) std::ofstream(path + "/" + file, std::ios::binary) << text;
    return path;
  }

 private:
  static std::string MakeFolder() {
    std::string folder = ::testing::TempDir() + "model_facts_XXXXXX";
    return mkdtemp(folder.data());
  }
  const std::string folder_ = MakeFolder();
};

modelfile::HfContents FloatDirectory() {
  TinyLlamaOptions options = Servable();
  options.matrix_type = modelfile::TensorType::kF32;
  options.embedding_type = modelfile::TensorType::kF32;
  return modelfile::TinyHf(options);
}

TEST_F(ModelFactsTest, AServableModelListsTheMemoryOfEveryWayToComputeIt) {
  const std::string path = Write("tiny.gguf", modelfile::TinyLlama(Servable()));
  const auto facts = GatherModelFacts(path, 4 * kMiB);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->reason, "");
  EXPECT_EQ(facts->name, "tiny");
  // Embedding, final norm, and per layer two norms, q and o, k and v, and three of the feed-forward part.
  constexpr int64_t kLayer = 2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96;
  EXPECT_EQ(facts->parameters, modelfile::kTinyVocabSize * 64 + 64 + 2 * kLayer);
  ASSERT_EQ(facts->memory.size(), 3u) << "bf16 and int8 with exact, f32 with fp32; all matrices are quantized";
  const MemoryNeeds& bf16 = facts->memory[0];
  EXPECT_EQ(bf16.kv_dtype, KvDtype::kBf16);
  EXPECT_EQ(bf16.token_bytes, 2 * 2 * 32 * 2) << "layers, K and V, head dimension, bytes";
  EXPECT_EQ(bf16.token_bytes_beyond_window, bf16.token_bytes);
  EXPECT_EQ(bf16.context_bytes, 256 * bf16.token_bytes);
  EXPECT_EQ(facts->memory[2].numerics, engine::Numerics::kFp32);
  EXPECT_EQ(facts->memory[2].token_bytes, 2 * bf16.token_bytes);
  EXPECT_GT(facts->memory[2].weight_bytes, bf16.weight_bytes);
}

TEST_F(ModelFactsTest, WhatFitsIsWhatTheEngineWouldAllocate) {
  const std::string path = Write("tiny.gguf", modelfile::TinyLlama(Servable()));
  const auto loaded = LoadModelFile(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto runner = engine::LoadCpuModel(*loaded->file, {.threads = 1});
  ASSERT_TRUE(runner.ok()) << runner.status();
  const KvLayout layout = (*runner)->kv_layout();
  const int64_t weights = engine::PackedWeightBytes(*loaded->file, engine::Numerics::kExact, engine::Weights::kAuto);
  // One byte short of 40 blocks.
  const auto memory = weights + 40 * static_cast<int64_t>(layout.block_bytes()) - 1;
  const MemoryNeeds needs = ListMemoryNeeds(*loaded->file, memory)[0];
  EXPECT_EQ(needs.weight_bytes, weights);
  EXPECT_EQ(needs.token_bytes, static_cast<int64_t>(layout.token_bytes()));
  EXPECT_EQ(needs.fit->tokens, 39 * kBlockTokens);
  EXPECT_EQ(needs.fit->full_contexts, 2) << "of 16 blocks";
  EXPECT_EQ(needs.fit->kv_bytes, 39 * static_cast<int64_t>(layout.block_bytes()));
  EXPECT_EQ(ListMemoryNeeds(*loaded->file, weights - 1)[0].fit->tokens, 0) << "the weights alone do not fit";
}

TEST_F(ModelFactsTest, AFloatCheckpointAlsoListsItsWeightsQuantizedAtLoad) {
  const auto facts = GatherModelFacts(Write("tiny", FloatDirectory()), std::nullopt);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->reason, "");
  ASSERT_EQ(facts->memory.size(), 7u);
  EXPECT_EQ(facts->memory[2].weights, engine::Weights::kInt8);
  EXPECT_LT(facts->memory[2].weight_bytes, facts->memory[0].weight_bytes);
}

TEST_F(ModelFactsTest, HeadsThatAreNoMultipleOf32AreDescribedAndRefused) {
  const std::string path = Write("narrow.gguf", modelfile::TinyLlama());
  const auto facts = GatherModelFacts(path, kMiB);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->reason, "the head dimension is 16, and Baton runs positive multiples of 32; use another model");
  EXPECT_TRUE(facts->memory.empty());
  EXPECT_EQ(facts->file->config().head_dim, 16);
  const auto loaded = LoadModelFile(path);
  EXPECT_EQ(LoadRunner(*loaded, {.threads = 1}, {}, false).status().message(), path + ": " + facts->reason)
      << "a worker says the same, and names the file";
}

TEST_F(ModelFactsTest, ADirectoryWithoutATokenizerSaysWhatIsMissing) {
  modelfile::HfContents contents = FloatDirectory();
  contents.erase("tokenizer.json");
  const std::string path = Write("mute", contents);
  const auto facts = GatherModelFacts(path, std::nullopt);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(facts->reason, HasSubstr("tokenizer.json is missing"));
  EXPECT_EQ(LoadServedModel(path).status().message(), path + ": " + facts->reason);
  TinyLlamaOptions options = Servable();
  options.tokenizer = false;
  EXPECT_THAT(GatherModelFacts(Write("mute.gguf", modelfile::TinyLlama(options)), std::nullopt)->reason,
              HasSubstr("tokenizer.ggml.model is missing"));
}

TEST_F(ModelFactsTest, AnotherArchitectureIsDescribedWithTheReason) {
  TinyLlamaOptions options = Servable();
  options.leave_out = {"general.architecture"};
  const std::string path = Write("other.gguf", modelfile::TinyLlamaWriter(options)
                                                   .AddString("general.architecture", "qwen3")
                                                   .AddU32("qwen3.block_count", 28)
                                                   .Finish());
  const auto facts = GatherModelFacts(path, std::nullopt);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->reason, "architecture qwen3: Baton runs llama and gemma3; use a model of one of these");
  EXPECT_EQ(facts->file, nullptr);
  EXPECT_GT(facts->parameters.value_or(0), 0);
  const auto json = ModelFactsJson(*facts);
  EXPECT_EQ(json["servable"], false);
  EXPECT_EQ(json["reason"], facts->reason);
  EXPECT_EQ(json["config"]["layers"], 28);
  EXPECT_TRUE(json["weights_digest"].is_null());
  EXPECT_THAT(ModelFactsText(*facts, {}), AllOf(HasSubstr("no: architecture qwen3"), Not(HasSubstr("\nmemory"))));
}

TEST_F(ModelFactsTest, PackedIntegersAreNotCountedAsParameters) {
  modelfile::HfContents contents = FloatDirectory();
  auto config = modelfile::Json::parse(contents["config.json"]);
  config["quantization_config"] = {{"quant_method", "gptq"}};
  contents["config.json"] = config.dump();
  contents["model.safetensors"] = modelfile::WriteSafetensors({{"q.qweight", "I32", {2}, "12345678"}});
  const auto facts = GatherModelFacts(Write("packed", contents), std::nullopt);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->parameters, std::nullopt);
  EXPECT_THAT(facts->reason, HasSubstr("quantization_config"));
  EXPECT_TRUE(ModelFactsJson(*facts)["parameters"].is_null());
}

TEST_F(ModelFactsTest, DamagedFilesAreErrorsThatNameTheFile) {
  std::vector<uint8_t> cut = modelfile::TinyLlama(Servable());
  cut.resize(cut.size() - 1);
  TinyLlamaOptions options = Servable();
  options.leave_out = {"llama.block_count"};
  for (const std::string& path :
       {Write("cut.gguf", cut), Write("foreign.gguf", std::vector<uint8_t>(64, 'x')),
        Write("empty.gguf", std::vector<uint8_t>()), Write("keyless.gguf", modelfile::TinyLlama(options)),
        Write("hollow", modelfile::HfContents{})}) {
    const auto facts = GatherModelFacts(path, std::nullopt);
    ASSERT_FALSE(facts.ok()) << path;
    EXPECT_THAT(std::string(facts.status().message()), AllOf(HasSubstr(path + ": "), Not(HasSubstr("\n"))));
  }
}

TEST_F(ModelFactsTest, TheTextShowsSizesFirstAndTheRestOnlyWhenAsked) {
  const auto facts = GatherModelFacts(Write("tiny.gguf", modelfile::TinyLlama(Servable())), 8 * kMiB);
  ASSERT_TRUE(facts.ok()) << facts.status();
  const std::string text = ModelFactsText(*facts, {.memory = "8MiB"});
  EXPECT_THAT(text, AllOf(HasSubstr("servable      yes\n"), HasSubstr("tokens in 8MiB"), HasSubstr("1e-05")));
  EXPECT_LT(text.find("parameters"), text.find("KV a token"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("blk.0.attn_q.weight")), Not(HasSubstr("tokenizer.ggml.model"))));
  EXPECT_THAT(ModelFactsText(*facts, {.tensors = true}), HasSubstr("blk.0.attn_q.weight"));
  EXPECT_THAT(ModelFactsText(*facts, {.metadata = true}), HasSubstr("tokenizer.ggml.model"));
  EXPECT_EQ(ModelFactsJson(*facts)["config"]["rms_norm_eps"].dump(), "1e-05");
}

}  // namespace
}  // namespace baton::cli
