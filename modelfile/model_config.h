// What the metadata of a GGUF file says about model and tokenizer, checked for sense.
#ifndef BATON_MODELFILE_MODEL_CONFIG_H_
#define BATON_MODELFILE_MODEL_CONFIG_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "modelfile/gguf_document.h"
#include "modelfile/model_file.h"

namespace baton::modelfile {

// INVALID_ARGUMENT names the key and the range that it must be in; UNIMPLEMENTED names the architecture or the variant
// (RoPE scaling, experts, soft caps, ...) that Baton does not run.
absl::StatusOr<ModelConfig> ReadModelConfig(const GgufDocument& document);

// UNIMPLEMENTED for a tensor that the engine would ignore (a bias, a RoPE factor): the output would be wrong.
absl::Status CheckTensorNames(const GgufDocument& document, const ModelConfig& config);

// A file without tokenizer.ggml.model has no tokenizer: the result's `model` is empty.
absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const GgufDocument& document);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_MODEL_CONFIG_H_
