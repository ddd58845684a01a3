#include "modelfile/gguf_config.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "modelfile/architecture.h"
#include "modelfile/gguf_config_reader.h"
#include "modelfile/limits.h"
#include "modelfile/tensor_names.h"

namespace baton::modelfile {
namespace {

absl::Status ReadFloats(const GgufConfigReader& reader, ModelConfig* config) {
  constexpr std::string_view kEps = "attention.layer_norm_rms_epsilon";
  BATON_ASSIGN_OR_RETURN(const std::optional<double> eps, reader.document().Float(reader.Key(kEps)));
  if (!eps.has_value()) return Refused(absl::StrCat(reader.Key(kEps), " is missing"));
  // Negated, so that NaN is refused too.
  if (!(*eps > 0 && *eps <= kMaxNormEps && static_cast<float>(*eps) > 0)) {
    return Refused(absl::StrFormat("%s is %g, must be above 0 and at most %g", reader.Key(kEps), *eps, kMaxNormEps));
  }
  config->rms_norm_eps = static_cast<float>(*eps);
  BATON_ASSIGN_OR_RETURN(const std::optional<double> theta, reader.OptionalFloat("rope.freq_base", {1, kMaxRopeTheta}));
  if (theta.has_value()) config->rope_theta = static_cast<float>(*theta);
  return absl::OkStatus();
}

// Accepts no scaling, and linear scaling, which divides positions by a factor.
absl::Status ReadRopeScaling(const GgufConfigReader& reader, ModelConfig* config) {
  constexpr std::string_view kPrefix = "rope.scaling.";
  const std::string factor_key = reader.Key("rope.scaling.factor");
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> type,
                         reader.document().String(reader.Key("rope.scaling.type")));
  if (type.has_value() && *type == "none") return absl::OkStatus();
  const bool linear = type.has_value() && *type == "linear";
  for (const GgufEntry& entry : reader.document().entries()) {
    const bool is_known = linear && (entry.key == factor_key || entry.key == reader.Key("rope.scaling.type"));
    if (!is_known && (entry.key.starts_with(reader.Key(kPrefix)) || entry.key == reader.Key("rope.scale_linear"))) {
      return NotBuilt(
          absl::StrCat("the model scales RoPE (", ShowText(entry.key), " is ", ShowGgufValue(entry.value), ")"));
    }
  }
  if (!linear) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const std::optional<double> factor,
                         reader.OptionalFloat("rope.scaling.factor", {1, kMaxRopeScalingFactor}));
  if (!factor.has_value()) return Refused(absl::StrCat(factor_key, " is missing"));
  config->rope_scaling_factor = static_cast<float>(*factor);
  return absl::OkStatus();
}

// Refuses variants that change the arithmetic. An absent key, or 0, means the plain model.
absl::Status CheckVariants(const GgufConfigReader& reader) {
  for (const std::string_view key : {"expert_count", "expert_used_count"}) {
    BATON_RETURN_IF_ERROR(reader.MustBeZero(key));
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> parts, reader.document().Integer("split.count"));
  if (parts.value_or(0) > 1 || parts.value_or(0) < 0) return NotBuilt(absl::StrCat("split.count is ", *parts));
  return absl::OkStatus();
}

absl::StatusOr<int32_t> ReadHeadDim(const GgufConfigReader& reader, const ModelConfig& config) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> stated, reader.Optional("attention.key_length", kMaxHiddenSize));
  if (!stated.has_value() && config.hidden_size % config.heads != 0) {
    return Refused(absl::StrCat(reader.Key("embedding_length"), " ", config.hidden_size, " is not a multiple of ",
                                reader.Key("attention.head_count"), " ", config.heads));
  }
  const int32_t head_dim = stated.value_or(config.hidden_size / config.heads);
  if (head_dim % 2 != 0 || head_dim > kMaxHeadDim) {
    return Refused(absl::StrCat("the head size (", reader.Key("attention.key_length"),
                                ", or embedding_length / head_count", ") is ", head_dim, ", must be even and at most ",
                                kMaxHeadDim));
  }
  for (const std::string_view key : {"rope.dimension_count", "attention.value_length"}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> size, reader.Optional(key, kMaxHiddenSize));
    if (size.has_value() && *size != head_dim) {
      return NotBuilt(absl::StrCat(reader.Key(key), " is ", *size, " with heads of ", head_dim));
    }
  }
  return head_dim;
}

absl::Status ReadHeads(const GgufConfigReader& reader, ModelConfig* config) {
  BATON_ASSIGN_OR_RETURN(config->heads, reader.Required("attention.head_count", kMaxHeads));
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> kv_heads, reader.Optional("attention.head_count_kv", kMaxHeads));
  config->kv_heads = kv_heads.value_or(config->heads);
  if (config->heads % config->kv_heads != 0) {
    return Refused(absl::StrCat(reader.Key("attention.head_count"), " ", config->heads, " is not a multiple of ",
                                reader.Key("attention.head_count_kv"), " ", config->kv_heads));
  }
  BATON_ASSIGN_OR_RETURN(config->head_dim, ReadHeadDim(reader, *config));
  return absl::OkStatus();
}

absl::Status ReadVocabSize(const GgufConfigReader& reader, ModelConfig* config) {
  const TensorView* embedding = reader.document().FindTensor("token_embd.weight");
  if (embedding == nullptr) {
    return absl::InvalidArgumentError("damaged GGUF file: tensor token_embd.weight is missing; fetch the file again");
  }
  if (embedding->cols != config->hidden_size || embedding->rows > kMaxVocabSize) {
    return Refused(absl::StrCat("token_embd.weight is ", embedding->rows, " x ", embedding->cols, ", must be at most ",
                                kMaxVocabSize, " x ", reader.Key("embedding_length"), " ", config->hidden_size));
  }
  config->vocab_size = static_cast<int32_t>(embedding->rows);
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> stated, reader.Optional("vocab_size", kMaxVocabSize));
  if (stated.has_value() && *stated != config->vocab_size) {
    return Refused(absl::StrCat(reader.Key("vocab_size"), " is ", *stated, ", token_embd.weight has ",
                                config->vocab_size, " rows"));
  }
  BATON_ASSIGN_OR_RETURN(const auto* tokens, reader.document().StringArray("tokenizer.ggml.tokens"));
  if (tokens != nullptr && tokens->size() != static_cast<size_t>(config->vocab_size)) {
    return Refused(absl::StrCat("tokenizer.ggml.tokens has ", tokens->size(), " tokens, token_embd.weight has ",
                                config->vocab_size, " rows"));
  }
  return absl::OkStatus();
}

absl::StatusOr<const Architecture*> FindGgufArchitecture(const GgufDocument& document) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, document.String("general.architecture"));
  if (!name.has_value()) return Refused("general.architecture is missing");
  std::vector<std::string> known;
  for (const Architecture* const architecture : kArchitectures) {
    if (architecture->name == *name) return architecture;
    known.emplace_back(architecture->name);
  }
  return absl::UnimplementedError(absl::StrCat("architecture ", ShowText(*name), ": Baton runs ",
                                               absl::StrJoin(known, " and "), "; use a model of one of these"));
}

}  // namespace

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufDocument& document) {
  BATON_ASSIGN_OR_RETURN(const Architecture* const architecture, FindGgufArchitecture(document));
  const GgufConfigReader reader(document, architecture->name);
  BATON_RETURN_IF_ERROR(CheckVariants(reader));
  ModelConfig config;
  config.architecture = architecture->name;
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, document.String("general.name"));
  config.name = std::string(name.value_or(""));
  BATON_ASSIGN_OR_RETURN(config.layers, reader.Required("block_count", kMaxLayers));
  BATON_ASSIGN_OR_RETURN(config.hidden_size, reader.Required("embedding_length", kMaxHiddenSize));
  BATON_ASSIGN_OR_RETURN(config.ffn_size, reader.Required("feed_forward_length", kMaxFfnSize));
  BATON_ASSIGN_OR_RETURN(config.context_length, reader.Required("context_length", kMaxContextLength));
  BATON_RETURN_IF_ERROR(ReadHeads(reader, &config));
  BATON_RETURN_IF_ERROR(ReadFloats(reader, &config));
  BATON_RETURN_IF_ERROR(ReadRopeScaling(reader, &config));
  BATON_RETURN_IF_ERROR(ReadVocabSize(reader, &config));
  BATON_RETURN_IF_ERROR(architecture->read_gguf(reader, &config));
  return config;
}

absl::Status CheckGgufTensorNames(const GgufDocument& document, const ModelConfig& config) {
  for (const TensorView& tensor : document.tensors()) {
    if (IsEngineTensor(tensor.name, config)) continue;
    return NotBuilt(absl::StrCat("tensor ", ShowText(tensor.name), " is not part of a plain ",
                                 ToAbsl(config.architecture), " model of ", config.layers, " layers"));
  }
  return absl::OkStatus();
}

}  // namespace baton::modelfile
