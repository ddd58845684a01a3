// Llama's part of config.json, in the spellings of transformers 4 and 5.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/hf_config_reader.h"

namespace baton::modelfile {
namespace {

// transformers wrote rope_theta and rope_scaling at the top, and writes rope_parameters since version 5.
absl::Status ReadLlamaRope(const JsonFields& fields, ModelConfig* model) {
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

}  // namespace

absl::Status ReadHfLlama(const JsonFields& fields, HfConfig* out) {
  if (fields.Find("sliding_window") != nullptr) return fields.NotBuilt("sliding_window");
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> activation, fields.String("hidden_act"));
  if (activation.value_or("silu") != "silu") return fields.NotBuilt("hidden_act");
  out->model.attention_scale = 1.0f / std::sqrt(static_cast<float>(out->model.head_dim));
  return ReadLlamaRope(fields, &out->model);
}

}  // namespace baton::modelfile
