// The tiny llama of tiny_llama.h as a Hugging Face directory with the same weights: for tests and fuzz corpora.
#ifndef BATON_MODELFILE_TESTING_TINY_HF_H_
#define BATON_MODELFILE_TESTING_TINY_HF_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "modelfile/hf_directory.h"
#include "modelfile/testing/tiny_llama.h"

namespace baton::modelfile {

// The contents of each file by its name.
using HfContents = std::map<std::string, std::string>;

class MemoryHfFiles final : public HfFiles {
 public:
  explicit MemoryHfFiles(HfContents contents) : contents_(std::move(contents)) {}
  absl::StatusOr<std::string_view> Open(const std::string& name) override;
  std::vector<std::string> WeightFiles() override;

 private:
  const HfContents contents_;
};

struct SafetensorsSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
// Checks nothing, so that it can write damaged files as well.
std::string WriteSafetensors(const std::vector<SafetensorsSpec>& tensors);

// Requires float types. The rows of q and k are in transformers' order.
std::vector<SafetensorsSpec> TinyHfTensors(const TinyLlamaOptions& options);
// config.json, generation_config.json, tokenizer.json, tokenizer_config.json, model.safetensors.
HfContents TinyHf(const TinyLlamaOptions& options);

inline absl::StatusOr<std::unique_ptr<ModelFile>> ParseHf(HfContents contents) {
  return ParseHfModel(std::make_unique<MemoryHfFiles>(std::move(contents)), "tiny");
}

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TESTING_TINY_HF_H_
