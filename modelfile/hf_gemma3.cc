// Gemma 3's part of config.json, in the spellings of transformers 4 and 5.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "modelfile/hf_config_reader.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

constexpr int32_t kDefaultPeriod = 6;
constexpr int32_t kDefaultQueryScalar = 256;
constexpr float kDefaultTheta = 1e6f;
constexpr float kDefaultSlidingTheta = 1e4f;

absl::Status CheckVariants(const JsonFields& fields) {
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

// One object of a kind of layers: no scaling, or linear where `factor` is not null.
absl::Status ReadRopeObject(const JsonFields& rope, float* theta, float* factor) {
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

absl::Status ReadGemmaRope(const JsonFields& fields, ModelConfig* model) {
  model->rope_theta = kDefaultTheta;
  model->sliding_rope_theta = kDefaultSlidingTheta;
  BATON_RETURN_IF_ERROR(ReadHfTheta(fields, "rope_theta", &model->rope_theta));
  BATON_RETURN_IF_ERROR(ReadHfTheta(fields, "rope_local_base_freq", &model->sliding_rope_theta));
  BATON_ASSIGN_OR_RETURN(const Json* scaling, fields.Object("rope_scaling"));
  if (scaling != nullptr) {
    const JsonFields rope(*scaling, "config.json: rope_scaling");
    BATON_RETURN_IF_ERROR(ReadRopeObject(rope, &model->rope_theta, &model->rope_scaling_factor));
  }
  BATON_ASSIGN_OR_RETURN(const Json* parameters, fields.Object("rope_parameters"));
  if (parameters == nullptr) return absl::OkStatus();
  const JsonFields kinds(*parameters, "config.json: rope_parameters");
  BATON_ASSIGN_OR_RETURN(const Json* full, kinds.Object("full_attention"));
  BATON_ASSIGN_OR_RETURN(const Json* sliding, kinds.Object("sliding_attention"));
  if (full == nullptr || sliding == nullptr)
    return kinds.Refuse("full_attention", "an object beside sliding_attention");
  BATON_RETURN_IF_ERROR(ReadRopeObject(JsonFields(*full, "config.json: rope_parameters: full_attention"),
                                       &model->rope_theta, &model->rope_scaling_factor));
  return ReadRopeObject(JsonFields(*sliding, "config.json: rope_parameters: sliding_attention"),
                        &model->sliding_rope_theta, nullptr);
}

absl::Status ReadSlidingLayers(const JsonFields& fields, ModelConfig* model) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> window,
                         OptionalHfInteger(fields, {"sliding_window", kMaxContextLength}));
  if (!window.has_value()) return absl::OkStatus();
  model->sliding_window = *window;
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> period,
                         OptionalHfInteger(fields, {"sliding_window_pattern", kMaxLayers}));
  for (int32_t i = 0; i < model->layers; ++i) {
    model->sliding_layers.push_back((i + 1) % period.value_or(kDefaultPeriod) != 0);
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

}  // namespace

absl::Status ReadHfGemma3(const JsonFields& fields, HfConfig* out) {
  ModelConfig& model = out->model;
  BATON_RETURN_IF_ERROR(CheckVariants(fields));
  BATON_RETURN_IF_ERROR(ReadGemmaRope(fields, &model));
  BATON_RETURN_IF_ERROR(ReadSlidingLayers(fields, &model));
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> scalar,
                         OptionalHfInteger(fields, {"query_pre_attn_scalar", kMaxHiddenSize}));
  model.attention_scale = 1.0f / std::sqrt(static_cast<float>(scalar.value_or(kDefaultQueryScalar)));
  model.embedding_scale = std::sqrt(static_cast<float>(model.hidden_size));
  model.activation = Activation::kGeGluTanh;
  model.query_key_norm = true;
  model.post_norms = true;
  model.norm_weight_plus_one = true;
  // Gemma ties where the file is silent.
  out->tied_head = out->tied_head.value_or(true);
  return absl::OkStatus();
}

}  // namespace baton::modelfile
