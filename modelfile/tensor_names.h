// Which tensors a model has, and what Hugging Face calls them. The engine looks tensors up by GGUF's names.
#ifndef BATON_MODELFILE_TENSOR_NAMES_H_
#define BATON_MODELFILE_TENSOR_NAMES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "modelfile/model_config.h"

namespace baton::modelfile {

// The config of both functions must come from a reader of model files.

// Whether the engine reads a tensor of this name ("blk.12.attn_q.weight").
bool IsEngineTensor(std::string_view name, const ModelConfig& config);

// The engine's name of the tensor. Empty when the tensor follows from the configuration and need not be read.
// UNIMPLEMENTED for a tensor that the engine would ignore: the output would be wrong.
absl::StatusOr<std::string> EngineTensorName(std::string_view huggingface_name, const ModelConfig& config);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TENSOR_NAMES_H_
