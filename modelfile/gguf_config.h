// What the metadata of a GGUF file says about the model, checked for sense.
#ifndef BATON_MODELFILE_GGUF_CONFIG_H_
#define BATON_MODELFILE_GGUF_CONFIG_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "modelfile/gguf_document.h"
#include "modelfile/model_config.h"

namespace baton::modelfile {

// INVALID_ARGUMENT names the key and the range that it must be in; UNIMPLEMENTED names the architecture or the variant
// (RoPE scaling, experts, soft caps, ...) that Baton does not run.
absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufDocument& document);

// UNIMPLEMENTED for a tensor that the engine would ignore (a bias, a RoPE factor): the output would be wrong. `config`
// is the one that ReadGgufConfig gave.
absl::Status CheckGgufTensorNames(const GgufDocument& document, const ModelConfig& config);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_GGUF_CONFIG_H_
