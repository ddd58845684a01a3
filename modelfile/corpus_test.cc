// The seeds of the fuzzers are what the writers write. Set BATON_WRITE_CORPUS=1 to write them again.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "modelfile/testing/smallest_llama.h"
#include "modelfile/testing/tiny_fp8.h"
#include "modelfile/testing/tiny_hf.h"

namespace baton::modelfile {
namespace {

struct Seed {
  std::string name;
  std::vector<uint8_t> bytes;
};

std::vector<Seed> Seeds() {
  std::vector<Seed> seeds;
  seeds.push_back({"tiny.gguf", TinyLlama(Smallest())});
  TinyLlamaOptions floats = Smallest({"tokenizer.ggml.merges"});
  floats.hidden_size = floats.ffn_size = 8;
  floats.matrix_type = TensorType::kF16;
  floats.embedding_type = TensorType::kBf16;
  floats.tied_head = false;
  seeds.push_back({"floats.gguf", TinyLlamaWriter(floats)
                                      .AddString("tokenizer.chat_template", "{{ messages }}")
                                      .AddBool("tokenizer.ggml.add_bos_token", true)
                                      .AddBool("tokenizer.ggml.add_space_prefix", false)
                                      .AddU32("tokenizer.ggml.padding_token_id", 0)
                                      .AddU32("llama.vocab_size", 8)
                                      .AddU32("split.count", 1)
                                      .AddString("llama.rope.scaling.type", "none")
                                      .AddStringArray("tokenizer.ggml.merges", std::vector<std::string>{"a b"})
                                      .Finish()});
  GgufWriter values;
  values.SetAlignment(8).AddU32("general.alignment", 8).AddF32Array("floats", std::vector<float>{1, 2});
  const std::vector<uint8_t> one(8, 1);
  for (const uint32_t type : {0u, 1u, 2u, 3u, 10u, 11u, 12u}) {
    const size_t bytes = GgufTypeBytes(static_cast<GgufType>(type));
    values.AddRaw("type" + std::to_string(type), type, absl::MakeSpan(one).subspan(0, bytes));
  }
  seeds.push_back({"values.gguf", values.Finish()});
  return seeds;
}

// The format of hf_fuzz.cc: the number of the file, then the file.
Seed HfSeed(const std::string& name, uint8_t file, const std::string& content) {
  Seed seed = {name, {file}};
  seed.bytes.insert(seed.bytes.end(), content.begin(), content.end());
  return seed;
}

// The number of model.safetensors.
constexpr uint8_t kHfWeightsFile = 6;

std::vector<Seed> HfSeeds() {
  TinyLlamaOptions options = Smallest();
  options.hidden_size = options.ffn_size = 8;
  options.matrix_type = TensorType::kF32;
  options.embedding_type = TensorType::kBf16;
  const HfContents tiny = TinyHf(options);
  std::vector<Seed> seeds;
  const char* const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"};
  for (uint8_t i = 0; i < std::size(names); ++i) {
    seeds.push_back(HfSeed(std::string("hf/") + names[i], i, tiny.at(names[i])));
  }
  const HfContents blocks = TinyFp8({.layout = Fp8Layout::kBlock, .model = options});
  const HfContents channels = TinyFp8({.layout = Fp8Layout::kChannel, .model = options});
  seeds.push_back(HfSeed("hf/config_of_blocks.json", 0, blocks.at("config.json")));
  seeds.push_back(HfSeed("hf/config_of_channels.json", 0, channels.at("config.json")));
  seeds.push_back(HfSeed("hf/fp8.safetensors", kHfWeightsFile, blocks.at("model.safetensors")));
  const std::string& weights = tiny.at("model.safetensors");
  seeds.push_back({"safetensors/tiny.safetensors", {weights.begin(), weights.end()}});
  return seeds;
}

TEST(Corpus, IsWhatTheWritersWrite) {
  std::vector<Seed> seeds = Seeds();
  for (Seed& seed : seeds) seed.name = "gguf/" + seed.name;
  for (Seed& seed : HfSeeds()) seeds.push_back(std::move(seed));
  for (const Seed& seed : seeds) {
    const std::string path = std::string(BATON_SOURCE_DIR) + "/modelfile/corpus/" + seed.name;
    if (std::getenv("BATON_WRITE_CORPUS") != nullptr) {
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(seed.bytes.data()), static_cast<std::streamsize>(seed.bytes.size()));
    }
    std::ifstream in(path, std::ios::binary);
    const std::vector<uint8_t> committed((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_EQ(committed, seed.bytes) << path << ": run this test with BATON_WRITE_CORPUS=1";
  }
}

}  // namespace
}  // namespace baton::modelfile
