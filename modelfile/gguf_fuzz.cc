// libFuzzer over whole GGUF files. Whatever the bytes are, opening them gives a model or one error, and a model that
// opens keeps its promises.
#include <cstddef>
#include <cstdint>

#include "common/check.h"
#include "modelfile/model_description.h"
#include "modelfile/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace baton::modelfile;  // NOLINT: one function
  const auto description = DescribeGguf(data, bytes);
  if (!description.ok()) {
    BATON_CHECK(description.status().message().find('\n') == std::string::npos) << description.status();
  }
  const auto file = ParseGguf(data, bytes);
  BATON_CHECK(!file.ok() || description.ok()) << "a file that runs cannot be described";
  if (!file.ok()) {
    BATON_CHECK(file.status().message().find('\n') == std::string::npos) << file.status();
    return 0;
  }
  for (const TensorView& tensor : (*file)->tensors()) {
    BATON_CHECK(tensor.cols % TensorBlockElements(tensor.type) == 0);
    const auto blocks = static_cast<size_t>(tensor.rows * (tensor.cols / TensorBlockElements(tensor.type)));
    BATON_CHECK(tensor.bytes == blocks * TensorBlockBytes(tensor.type));
    BATON_CHECK((*file)->Find(tensor.name) == &tensor);
  }
  const ModelConfig& config = (*file)->config();
  BATON_CHECK(config.layers > 0 && config.heads % config.kv_heads == 0 && config.vocab_size > 0);
  BATON_CHECK(config.hidden_size == config.heads * config.head_dim);
  const TokenizerSpec& tokenizer = (*file)->tokenizer();
  BATON_CHECK(tokenizer.tokens.size() == tokenizer.token_types.size());
  BATON_CHECK(tokenizer.model.empty() || tokenizer.tokens.size() == static_cast<size_t>(config.vocab_size));
  // Reads every byte of every tensor.
  BATON_CHECK((*file)->WeightsDigest() == (*file)->WeightsDigest());
  return 0;
}
