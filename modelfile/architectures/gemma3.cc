// Gemma 3 (arxiv.org/abs/2503.19786): its tensors, and what GGUF and config.json (in the spellings of transformers 4
// and 5) say of it.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "modelfile/architecture.h"
#include "modelfile/gguf_document.h"
#include "modelfile/hf_config_reader.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

constexpr LayerTensor kGemma3LayerTensors[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
};

// Every sixth layer is full unless the file says otherwise.
constexpr int32_t kGemma3Period = 6;
constexpr int32_t kDefaultQueryScalar = 256;
constexpr float kDefaultTheta = 1e6f;
constexpr float kDefaultSlidingTheta = 1e4f;

// A file may state another period than the usual one, or a flag for each layer.
absl::Status ReadGgufSlidingLayers(const GgufConfigReader& reader, ModelConfig* config) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  config->sliding_layers.resize(static_cast<size_t>(config->layers));
  const GgufValue* const pattern = reader.document().Find(reader.Key(kKey));
  if (pattern != nullptr && pattern->is_array) {
    if (pattern->type != GgufType::kBool || pattern->count != config->sliding_layers.size()) {
      return Refused(absl::StrCat(reader.Key(kKey), " is ", ShowGgufType(*pattern), ", must be an integer or ",
                                  config->layers, " bool"));
    }
    for (size_t i = 0; i < pattern->count; ++i) config->sliding_layers[i] = pattern->bytes[i] != 0;
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> period, reader.Optional(kKey, kMaxLayers));
  for (int32_t i = 0; i < config->layers; ++i) {
    config->sliding_layers[static_cast<size_t>(i)] = (i + 1) % period.value_or(kGemma3Period) != 0;
  }
  return absl::OkStatus();
}

// GGUF has no key for what all sizes of Gemma 3 share, nor for the query scale. The largest model, of 62 layers,
// divides by the square root of hidden_size / heads; the others divide by that of head_dim.
absl::Status ReadGgufGemma3(const GgufConfigReader& reader, ModelConfig* config) {
  constexpr int32_t kLargestLayers = 62;
  for (const std::string_view key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    BATON_RETURN_IF_ERROR(reader.MustBeZero(key));
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> window,
                         reader.Optional("attention.sliding_window", kMaxContextLength));
  if (window.has_value()) {
    config->sliding_window = *window;
    BATON_RETURN_IF_ERROR(ReadGgufSlidingLayers(reader, config));
    BATON_ASSIGN_OR_RETURN(const std::optional<double> theta,
                           reader.OptionalFloat("rope.freq_base_swa", {1, kMaxRopeTheta}));
    config->sliding_rope_theta = static_cast<float>(theta.value_or(kDefaultSlidingTheta));
  }
  const int32_t divisor = config->layers == kLargestLayers ? config->hidden_size / config->heads : config->head_dim;
  config->attention_scale = 1.0f / std::sqrt(static_cast<float>(divisor));
  config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
  config->activation = Activation::kGeGluTanh;
  config->rope_interleaved = false;
  config->query_key_norm = true;
  config->post_norms = true;
  return absl::OkStatus();
}

absl::Status CheckHfGemma3(const JsonFields& fields) {
  for (const std::string_view key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<double> cap, fields.Number(key));
    if (cap.value_or(0) != 0) return fields.NotBuilt(key);
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> both_ways, fields.Bool("use_bidirectional_attention"));
  if (both_ways.value_or(false)) return fields.NotBuilt("use_bidirectional_attention");
  for (const std::string_view key : {"hidden_activation", "hidden_act"}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<std::string> activation, fields.String(key));
    if (activation.value_or("gelu_pytorch_tanh") != "gelu_pytorch_tanh") return fields.NotBuilt(key);
  }
  return absl::OkStatus();
}

// Reads the RoPE of the full or of the sliding layers. Linear scaling is allowed where `factor` is not null.
absl::Status ReadHfRopeOfLayers(const JsonFields& rope, float* theta, float* factor) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> type, rope.String("rope_type"));
  const bool linear = type.value_or("default") == "linear" && factor != nullptr;
  if (type.value_or("default") != "default" && !linear) return rope.NotBuilt("rope_type");
  if (linear) {
    BATON_ASSIGN_OR_RETURN(const std::optional<double> value, rope.Number("factor"));
    if (!(value.value_or(0) >= 1 && *value <= kMaxRopeScalingFactor)) {
      return rope.Refuse("factor", absl::StrFormat("1 to %g", kMaxRopeScalingFactor));
    }
    *factor = static_cast<float>(*value);
  }
  return ReadHfTheta(rope, "rope_theta", theta);
}

absl::Status ReadHfGemma3Rope(const JsonFields& fields, ModelConfig* model) {
  model->rope_theta = kDefaultTheta;
  model->sliding_rope_theta = kDefaultSlidingTheta;
  BATON_RETURN_IF_ERROR(ReadHfTheta(fields, "rope_theta", &model->rope_theta));
  BATON_RETURN_IF_ERROR(ReadHfTheta(fields, "rope_local_base_freq", &model->sliding_rope_theta));
  BATON_ASSIGN_OR_RETURN(const Json* scaling, fields.Object("rope_scaling"));
  if (scaling != nullptr) {
    const JsonFields rope(*scaling, "config.json: rope_scaling");
    BATON_RETURN_IF_ERROR(ReadHfRopeOfLayers(rope, &model->rope_theta, &model->rope_scaling_factor));
  }
  BATON_ASSIGN_OR_RETURN(const Json* parameters, fields.Object("rope_parameters"));
  if (parameters == nullptr) return absl::OkStatus();
  const JsonFields kinds(*parameters, "config.json: rope_parameters");
  BATON_ASSIGN_OR_RETURN(const Json* full, kinds.Object("full_attention"));
  BATON_ASSIGN_OR_RETURN(const Json* sliding, kinds.Object("sliding_attention"));
  if (full == nullptr || sliding == nullptr)
    return kinds.Refuse("full_attention", "an object beside sliding_attention");
  BATON_RETURN_IF_ERROR(ReadHfRopeOfLayers(JsonFields(*full, "config.json: rope_parameters: full_attention"),
                                           &model->rope_theta, &model->rope_scaling_factor));
  return ReadHfRopeOfLayers(JsonFields(*sliding, "config.json: rope_parameters: sliding_attention"),
                            &model->sliding_rope_theta, nullptr);
}

absl::Status ReadHfSlidingLayers(const JsonFields& fields, ModelConfig* model) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> window,
                         OptionalHfInteger(fields, {"sliding_window", kMaxContextLength}));
  if (!window.has_value()) return absl::OkStatus();
  model->sliding_window = *window;
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> period,
                         OptionalHfInteger(fields, {"sliding_window_pattern", kMaxLayers}));
  for (int32_t i = 0; i < model->layers; ++i) {
    model->sliding_layers.push_back((i + 1) % period.value_or(kGemma3Period) != 0);
  }
  BATON_ASSIGN_OR_RETURN(const Json* types, fields.Array("layer_types"));
  if (types == nullptr) return absl::OkStatus();
  const bool fits = types->size() == static_cast<size_t>(model->layers);
  for (size_t i = 0; i < types->size(); ++i) {
    const bool slides = (*types)[i] == "sliding_attention";
    if (!fits || (!slides && (*types)[i] != "full_attention")) {
      return fields.Refuse("layer_types", absl::StrCat(model->layers, " of sliding_attention and full_attention"));
    }
    model->sliding_layers[i] = slides;
  }
  return absl::OkStatus();
}

absl::Status ReadHfGemma3(const JsonFields& fields, HfConfig* out) {
  ModelConfig& model = out->model;
  BATON_RETURN_IF_ERROR(CheckHfGemma3(fields));
  BATON_RETURN_IF_ERROR(ReadHfGemma3Rope(fields, &model));
  BATON_RETURN_IF_ERROR(ReadHfSlidingLayers(fields, &model));
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> scalar,
                         OptionalHfInteger(fields, {"query_pre_attn_scalar", kMaxHiddenSize}));
  model.attention_scale = 1.0f / std::sqrt(static_cast<float>(scalar.value_or(kDefaultQueryScalar)));
  model.embedding_scale = std::sqrt(static_cast<float>(model.hidden_size));
  model.activation = Activation::kGeGluTanh;
  model.query_key_norm = true;
  model.post_norms = true;
  model.norm_weight_plus_one = true;
  // transformers ties Gemma's head to its embedding by default.
  out->tied_head = out->tied_head.value_or(true);
  return absl::OkStatus();
}

}  // namespace

const Architecture kGemma3 = {.name = "gemma3",
                              .huggingface_type = "gemma3_text",
                              .layer_tensors = kGemma3LayerTensors,
                              .huggingface_head_dim = 256,
                              .read_gguf = ReadGgufGemma3,
                              .read_huggingface = ReadHfGemma3};

}  // namespace baton::modelfile
