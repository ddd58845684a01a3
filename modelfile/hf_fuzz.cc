// libFuzzer over the files of a Hugging Face directory. Byte 0 chooses the file and the rest is its content; the other
// files are those of a tiny model with FP8 matrices. Opening gives a model that keeps its promises, or one error.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "modelfile/testing/tiny_fp8.h"

namespace {

constexpr const char* kFiles[] = {"config.json",           "tokenizer.json",
                                  "tokenizer_config.json", "generation_config.json",
                                  "chat_template.jinja",   "model.safetensors.index.json",
                                  "model.safetensors"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace baton::modelfile;  // NOLINT: one function
  static const HfContents& tiny = *new HfContents(TinyFp8({.model = {.layers = 1,
                                                                     .hidden_size = 8,
                                                                     .heads = 2,
                                                                     .kv_heads = 1,
                                                                     .ffn_size = 8,
                                                                     .vocab_size = 8,
                                                                     .matrix_type = TensorType::kF32,
                                                                     .embedding_type = TensorType::kBf16}}));
  if (bytes == 0) return 0;
  HfContents contents = tiny;
  contents[kFiles[data[0] % std::size(kFiles)]] = std::string(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  const auto file = ParseHf(std::move(contents));
  if (!file.ok()) {
    BATON_CHECK(file.status().message().find('\n') == std::string_view::npos) << file.status();
    return 0;
  }
  const ModelConfig& config = (*file)->config();
  BATON_CHECK(config.layers > 0 && config.heads % config.kv_heads == 0 && config.vocab_size > 0);
  BATON_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0);
  const TokenizerSpec& tokenizer = (*file)->tokenizer();
  BATON_CHECK(tokenizer.tokens.size() == tokenizer.token_types.size());
  BATON_CHECK(tokenizer.model.empty() || tokenizer.tokens.size() == static_cast<size_t>(config.vocab_size));
  for (const int32_t id : tokenizer.eos_ids) BATON_CHECK(id >= 0 && id < config.vocab_size);
  BATON_CHECK(tokenizer.bos_id < config.vocab_size && (!tokenizer.add_bos || tokenizer.bos_id >= 0));
  for (const TensorView& tensor : (*file)->tensors()) {
    BATON_CHECK((*file)->Find(tensor.name) == &tensor);
    BATON_CHECK((tensor.type == TensorType::kF8E4M3) == (tensor.scales.values != nullptr));
  }
  (void)(*file)->WeightsDigest();
  return 0;
}
