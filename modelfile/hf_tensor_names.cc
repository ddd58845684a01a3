// EngineTensorName: the tables from Hugging Face's tensor names to the engine's.
#include <charconv>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/hf_config.h"

namespace baton::modelfile {
namespace {

struct TensorName {
  std::string_view huggingface;
  std::string_view engine;
};

constexpr TensorName kModelTensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

constexpr std::string_view kLayerPrefix = "model.layers.";

constexpr TensorName kLlamaLayerTensors[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    // Old checkpoints keep RoPE's frequencies, which rope_theta gives.
    {"self_attn.rotary_emb.inv_freq", ""},
};

constexpr TensorName kGemma3LayerTensors[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
};

std::span<const TensorName> LayerTensors(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return kLlamaLayerTensors;
    case Architecture::kGemma3:
      return kGemma3LayerTensors;
  }
  return {};
}

const TensorName* Find(std::span<const TensorName> table, std::string_view name) {
  for (const TensorName& row : table) {
    if (row.huggingface == name) return &row;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::string> EngineTensorName(std::string_view name, const ModelConfig& config) {
  if (const TensorName* row = Find(kModelTensors, name)) return std::string(row->engine);
  if (name.starts_with(kLayerPrefix)) {
    std::string_view rest = name.substr(kLayerPrefix.size());
    int32_t layer = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    const auto digits = static_cast<size_t>(end - rest.data());
    const bool is_layer = error == std::errc() && layer >= 0 && layer < config.layers &&
                          digits == absl::StrCat(layer).size() && digits < rest.size() && rest[digits] == '.';
    const TensorName* row = is_layer ? Find(LayerTensors(config.architecture), rest.substr(digits + 1)) : nullptr;
    if (row != nullptr && row->engine.empty()) return std::string();
    if (row != nullptr) return absl::StrCat("blk.", layer, ".", ToAbsl(row->engine));
  }
  return absl::UnimplementedError(absl::StrCat("tensor ", ShowText(name), " is not part of a plain model of ",
                                               config.layers, " layers, which Baton runs; use another model"));
}

}  // namespace baton::modelfile
