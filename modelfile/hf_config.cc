#include "modelfile/hf_config.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "modelfile/architecture.h"
#include "modelfile/hf_config_reader.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

constexpr char kFile[] = "config.json";
constexpr size_t kMaxEosIds = 32;

absl::StatusOr<int32_t> RequiredInteger(const JsonFields& fields, HfIntegerRule rule) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> value, OptionalHfInteger(fields, rule));
  if (!value.has_value()) return fields.Refuse(rule.key, absl::StrCat("1 to ", rule.max));
  return *value;
}

absl::Status ReadSizes(const JsonFields& fields, int32_t default_head_dim, ModelConfig* model) {
  BATON_ASSIGN_OR_RETURN(model->hidden_size, RequiredInteger(fields, {"hidden_size", kMaxHiddenSize}));
  BATON_ASSIGN_OR_RETURN(model->layers, RequiredInteger(fields, {"num_hidden_layers", kMaxLayers}));
  BATON_ASSIGN_OR_RETURN(model->ffn_size, RequiredInteger(fields, {"intermediate_size", kMaxFfnSize}));
  BATON_ASSIGN_OR_RETURN(model->vocab_size, RequiredInteger(fields, {"vocab_size", kMaxVocabSize}));
  BATON_ASSIGN_OR_RETURN(model->context_length,
                         RequiredInteger(fields, {"max_position_embeddings", kMaxContextLength}));
  BATON_ASSIGN_OR_RETURN(model->heads, RequiredInteger(fields, {"num_attention_heads", kMaxHeads}));
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> kv_heads,
                         OptionalHfInteger(fields, {"num_key_value_heads", kMaxHeads}));
  model->kv_heads = kv_heads.value_or(model->heads);
  if (model->heads % model->kv_heads != 0) {
    return fields.Refuse("num_attention_heads", absl::StrCat("a multiple of num_key_value_heads ", model->kv_heads));
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> head_dim, OptionalHfInteger(fields, {"head_dim", kMaxHeadDim}));
  if (!head_dim.has_value() && default_head_dim == 0 && model->hidden_size % model->heads != 0) {
    return fields.Refuse("hidden_size", absl::StrCat("a multiple of num_attention_heads ", model->heads));
  }
  model->head_dim = head_dim.value_or(default_head_dim != 0 ? default_head_dim : model->hidden_size / model->heads);
  if (model->head_dim % 2 != 0 || model->head_dim > kMaxHeadDim) {
    return fields.Refuse("head_dim", absl::StrCat("even and at most ", kMaxHeadDim, ", not ", model->head_dim));
  }
  return absl::OkStatus();
}

absl::Status ReadNormEps(const JsonFields& fields, ModelConfig* model) {
  BATON_ASSIGN_OR_RETURN(const std::optional<double> eps, fields.Number("rms_norm_eps"));
  model->rms_norm_eps = static_cast<float>(eps.value_or(1e-6));
  // Negated, so that NaN is refused too.
  if (!(model->rms_norm_eps > 0 && model->rms_norm_eps <= static_cast<float>(kMaxNormEps))) {
    return fields.Refuse("rms_norm_eps", absl::StrFormat("above 0 and at most %g", kMaxNormEps));
  }
  return absl::OkStatus();
}

// The value may be one id or a list of ids.
absl::StatusOr<std::vector<int32_t>> ReadIds(const JsonFields& fields, std::string_view key) {
  const std::string wanted = absl::StrCat("a token id or at most ", kMaxEosIds, " of them");
  const Json* value = fields.Find(key);
  std::vector<int32_t> ids;
  if (value == nullptr) return ids;
  const auto add = [&ids](const Json& json) {
    if (!json.is_number_integer() || json < 0 || json >= kMaxVocabSize) return false;
    ids.push_back(json.get<int32_t>());
    return true;
  };
  if (!value->is_array()) {
    if (!add(*value)) return fields.Refuse(key, wanted);
    return ids;
  }
  if (value->size() > kMaxEosIds) return fields.Refuse(key, wanted);
  for (const Json& id : *value) {
    if (!add(id)) return fields.Refuse(key, wanted);
  }
  return ids;
}

absl::StatusOr<std::optional<float>> Float(const JsonFields& fields, std::string_view key) {
  BATON_ASSIGN_OR_RETURN(const std::optional<double> value, fields.Number(key));
  if (!value.has_value()) return std::nullopt;
  return static_cast<float>(*value);
}

absl::StatusOr<const Architecture*> FindHfArchitecture(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> type, fields.String("model_type"));
  if (!type.has_value()) return fields.Refuse("model_type", "the model's architecture, such as \"llama\"");
  for (const Architecture* const architecture : kArchitectures) {
    if (architecture->huggingface_type == *type) return architecture;
  }
  return fields.NotBuilt("model_type");
}

// Refuses variants that change the arithmetic. An absent key, null or false means the plain model.
absl::Status CheckHfVariants(const JsonFields& fields) {
  for (const std::string_view key : {"attention_bias", "mlp_bias"}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<bool> set, fields.Bool(key));
    if (set.value_or(false)) return fields.NotBuilt(key);
  }
  if (fields.Find("num_local_experts") != nullptr) return fields.NotBuilt("num_local_experts");
  BATON_ASSIGN_OR_RETURN(const std::optional<double> partial, fields.Number("partial_rotary_factor"));
  if (partial.value_or(1) != 1) return fields.NotBuilt("partial_rotary_factor");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<int32_t>> OptionalHfInteger(const JsonFields& fields, HfIntegerRule rule) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> value, fields.Integer(rule.key));
  if (!value.has_value()) return std::nullopt;
  if (*value < 1 || *value > rule.max) return fields.Refuse(rule.key, absl::StrCat("1 to ", rule.max));
  return static_cast<int32_t>(*value);
}

absl::Status ReadHfTheta(const JsonFields& fields, std::string_view key, float* theta) {
  BATON_ASSIGN_OR_RETURN(const std::optional<double> value, fields.Number(key));
  if (!value.has_value()) return absl::OkStatus();
  if (!(*value >= 1 && *value <= kMaxRopeTheta)) {
    return fields.Refuse(key, absl::StrFormat("1 to %g", kMaxRopeTheta));
  }
  *theta = static_cast<float>(*value);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string_view>> OpenOptionalHfFile(HfFiles& files, const std::string& name) {
  absl::StatusOr<std::string_view> text = files.Open(name);
  if (text.status().code() == absl::StatusCode::kNotFound) return std::nullopt;
  if (!text.ok()) return std::move(text).status();
  return *text;
}

absl::StatusOr<std::optional<Json>> ReadOptionalHfJson(HfFiles& files, const std::string& name, uint64_t max_bytes) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, OpenOptionalHfFile(files, name));
  if (!text.has_value()) return std::nullopt;
  BATON_ASSIGN_OR_RETURN(Json json, ParseJsonObject(*text, name, max_bytes));
  return json;
}

absl::StatusOr<Json> OpenHfConfig(HfFiles& files) {
  BATON_ASSIGN_OR_RETURN(std::optional<Json> config, ReadOptionalHfJson(files, kFile, kMaxHfJsonBytes));
  if (config.has_value()) return *std::move(config);
  return absl::NotFoundError(
      "there is no config.json; name a .gguf file, or a directory with config.json, tokenizer.json and *.safetensors");
}

absl::StatusOr<HfConfig> ReadHfConfig(const Json& config) {
  const JsonFields fields(config, kFile);
  BATON_ASSIGN_OR_RETURN(const Architecture* const architecture, FindHfArchitecture(fields));
  BATON_RETURN_IF_ERROR(CheckHfVariants(fields));
  HfConfig out;
  BATON_ASSIGN_OR_RETURN(out.fp8, ReadHfQuantization(fields));
  out.model.architecture = architecture->name;
  // transformers rotates the pairs (i, i + head_dim / 2) and stores the rows of q and k in that order.
  out.model.rope_interleaved = false;
  BATON_RETURN_IF_ERROR(ReadSizes(fields, architecture->huggingface_head_dim, &out.model));
  BATON_RETURN_IF_ERROR(ReadNormEps(fields, &out.model));
  BATON_ASSIGN_OR_RETURN(out.tied_head, fields.Bool("tie_word_embeddings"));
  BATON_RETURN_IF_ERROR(architecture->read_huggingface(fields, &out));
  BATON_ASSIGN_OR_RETURN(out.eos_ids, ReadIds(fields, "eos_token_id"));
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> bos_ids, ReadIds(fields, "bos_token_id"));
  if (!bos_ids.empty()) out.bos_id = bos_ids[0];
  return out;
}

absl::StatusOr<HfGeneration> ReadHfGeneration(const Json& generation) {
  const JsonFields fields(generation, "generation_config.json");
  HfGeneration out;
  BATON_ASSIGN_OR_RETURN(out.eos_ids, ReadIds(fields, "eos_token_id"));
  BATON_ASSIGN_OR_RETURN(out.sampling.repetition_penalty, Float(fields, "repetition_penalty"));
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> sample, fields.Bool("do_sample"));
  if (!sample.value_or(false)) return out;
  BATON_ASSIGN_OR_RETURN(const std::optional<float> temperature, Float(fields, "temperature"));
  out.sampling.temperature = temperature.value_or(1.0f);
  BATON_ASSIGN_OR_RETURN(out.sampling.top_p, Float(fields, "top_p"));
  BATON_ASSIGN_OR_RETURN(out.sampling.min_p, Float(fields, "min_p"));
  BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> top_k, fields.Integer("top_k"));
  if (top_k.has_value()) {
    if (*top_k < 0 || *top_k > INT32_MAX) return fields.Refuse("top_k", "0 to 2^31 - 1");
    out.sampling.top_k = static_cast<int32_t>(*top_k);
  }
  return out;
}

}  // namespace baton::modelfile
