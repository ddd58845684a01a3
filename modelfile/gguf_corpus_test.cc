// The seeds of the fuzzer are the output of the writer: set BATON_WRITE_CORPUS=1 to write them again.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "modelfile/test_models.h"

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

TEST(GgufCorpus, IsWhatTheWriterWrites) {
  for (const Seed& seed : Seeds()) {
    const std::string path = std::string(BATON_SOURCE_DIR) + "/modelfile/corpus/gguf/" + seed.name;
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
