// What one architecture differs in from the others, for both kinds of model file. Each file of architectures/ defines
// one Architecture.
#ifndef BATON_MODELFILE_ARCHITECTURE_H_
#define BATON_MODELFILE_ARCHITECTURE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "modelfile/gguf_config_reader.h"
#include "modelfile/hf_config.h"
#include "modelfile/json_reader.h"
#include "modelfile/model_config.h"

namespace baton::modelfile {

// One tensor of a layer by its two names, without the prefix that names the layer. The engine uses GGUF's names. An
// empty `gguf` marks a tensor of Hugging Face checkpoints that the engine computes from the configuration.
struct LayerTensor {
  std::string_view gguf;
  std::string_view huggingface;
};

struct Architecture {
  // general.architecture of a GGUF file.
  std::string_view name;
  // model_type of config.json.
  std::string_view huggingface_type;
  absl::Span<const LayerTensor> layer_tensors;
  // The head size where config.json has none; 0: hidden_size / num_attention_heads.
  int32_t huggingface_head_dim = 0;
  // Each reads what its kind of file says beyond the sizes that all architectures share. It finds those sizes in the
  // result and adds to them.
  absl::Status (*read_gguf)(const GgufConfigReader& reader, ModelConfig* config) = nullptr;
  absl::Status (*read_huggingface)(const JsonFields& fields, HfConfig* config) = nullptr;
};

extern const Architecture kLlama;
extern const Architecture kGemma3;

// Every architecture that Baton runs.
inline constexpr const Architecture* kArchitectures[] = {&kLlama, &kGemma3};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_ARCHITECTURE_H_
