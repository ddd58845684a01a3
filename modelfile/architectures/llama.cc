// Llama, and what is built like it: its tensors, and what GGUF and config.json (in the spellings of transformers 4 and
// 5) say of it.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/architecture.h"
#include "modelfile/hf_config_reader.h"

namespace baton::modelfile {
namespace {

constexpr LayerTensor kLlamaLayerTensors[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    // Old checkpoints store RoPE's frequencies, which follow from rope_theta.
    {"", "self_attn.rotary_emb.inv_freq"},
};

absl::Status ReadGgufLlama(const GgufConfigReader& reader, ModelConfig* config) {
  BATON_RETURN_IF_ERROR(reader.MustBeZero("attention.sliding_window"));
  config->attention_scale = 1.0f / std::sqrt(static_cast<float>(config->head_dim));
  return absl::OkStatus();
}

// transformers wrote rope_theta and rope_scaling at the top, and writes rope_parameters since version 5.
absl::Status ReadHfLlamaRope(const JsonFields& fields, ModelConfig* model) {
  BATON_RETURN_IF_ERROR(ReadHfTheta(fields, "rope_theta", &model->rope_theta));
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    BATON_ASSIGN_OR_RETURN(const Json* rope, fields.Object(key));
    if (rope == nullptr) continue;
    const JsonFields parameters(*rope, absl::StrCat(ToAbsl(fields.file()), ": ", ToAbsl(key)));
    for (const std::string_view type_key : {"rope_type", "type"}) {
      BATON_ASSIGN_OR_RETURN(const std::optional<std::string> type, parameters.String(type_key));
      if (type.value_or("default") != "default") return parameters.NotBuilt(type_key);
    }
    BATON_ASSIGN_OR_RETURN(const std::optional<double> partial, parameters.Number("partial_rotary_factor"));
    if (partial.value_or(1) != 1) return parameters.NotBuilt("partial_rotary_factor");
    BATON_RETURN_IF_ERROR(ReadHfTheta(parameters, "rope_theta", &model->rope_theta));
  }
  return absl::OkStatus();
}

absl::Status ReadHfLlama(const JsonFields& fields, HfConfig* out) {
  if (fields.Find("sliding_window") != nullptr) return fields.NotBuilt("sliding_window");
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> activation, fields.String("hidden_act"));
  if (activation.value_or("silu") != "silu") return fields.NotBuilt("hidden_act");
  out->model.attention_scale = 1.0f / std::sqrt(static_cast<float>(out->model.head_dim));
  return ReadHfLlamaRope(fields, &out->model);
}

}  // namespace

const Architecture kLlama = {.name = "llama",
                             .huggingface_type = "llama",
                             .layer_tensors = kLlamaLayerTensors,
                             .read_gguf = ReadGgufLlama,
                             .read_huggingface = ReadHfLlama};

}  // namespace baton::modelfile
