// Models as Hugging Face transformers stores them: config.json, *.safetensors with or without
// model.safetensors.index.json, tokenizer.json, tokenizer_config.json, chat_template.jinja, generation_config.json.
#ifndef BATON_MODELFILE_HF_DIRECTORY_H_
#define BATON_MODELFILE_HF_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "modelfile/hf_files.h"
#include "modelfile/model_file.h"

namespace baton::modelfile {

// The weights are in the files that the index names, else in model.safetensors, else in every *.safetensors file.
// Tensors may be F32, F16 or BF16, and matrices F8_E4M3 with the scales that quantization_config says. config.json and
// weights are required; without tokenizer.json, TokenizerSpec::model is empty. Errors are those of OpenModelFile.
absl::StatusOr<std::unique_ptr<ModelFile>> OpenHfDirectory(const std::string& path);

// The same for files from anywhere, for tests and fuzzers. `name` becomes ModelConfig::name.
absl::StatusOr<std::unique_ptr<ModelFile>> ParseHfModel(std::unique_ptr<HfFiles> files, const std::string& name);

// The files of the directory at `path`. Each of them is mapped when it is opened.
std::unique_ptr<HfFiles> OpenHfFiles(const std::string& path);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_DIRECTORY_H_
