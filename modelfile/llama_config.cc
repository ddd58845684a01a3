#include "modelfile/llama_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

constexpr std::string_view kBlockPrefix = "blk.";
constexpr std::array<std::string_view, 3> kModelTensors = {"token_embd.weight", "output_norm.weight", "output.weight"};
constexpr std::array<std::string_view, 9> kLayerTensors = {"attn_norm.weight", "attn_q.weight",      "attn_k.weight",
                                                           "attn_v.weight",    "attn_output.weight", "ffn_norm.weight",
                                                           "ffn_gate.weight",  "ffn_up.weight",      "ffn_down.weight"};

struct IntegerRule {
  std::string_view key;
  int32_t max = 0;
};

absl::Status Refused(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged GGUF metadata: ", ToAbsl(what),
                                                 "; fetch the file again or use another conversion of the model"));
}

absl::Status NotBuilt(std::string_view what) {
  return absl::UnimplementedError(absl::StrCat(ToAbsl(what), ", which Baton does not run; use another model"));
}

absl::StatusOr<std::optional<int32_t>> OptionalInteger(const GgufDocument& document, IntegerRule rule) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> value, document.Integer(rule.key));
  if (!value.has_value()) return std::nullopt;
  if (*value < 1 || *value > rule.max) {
    return Refused(absl::StrCat(ToAbsl(rule.key), " is ", *value, ", must be 1 to ", rule.max));
  }
  return static_cast<int32_t>(*value);
}

absl::StatusOr<int32_t> RequiredInteger(const GgufDocument& document, IntegerRule rule) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> value, OptionalInteger(document, rule));
  if (!value.has_value()) return Refused(absl::StrCat(ToAbsl(rule.key), " is missing"));
  return *value;
}

absl::Status ReadFloats(const GgufDocument& document, ModelConfig* config) {
  BATON_ASSIGN_OR_RETURN(const std::optional<double> eps, document.Float("llama.attention.layer_norm_rms_epsilon"));
  if (!eps.has_value()) return Refused("llama.attention.layer_norm_rms_epsilon is missing");
  // Negated, so that NaN is refused too.
  if (!(*eps > 0 && *eps <= kMaxNormEps && static_cast<float>(*eps) > 0)) {
    return Refused(absl::StrFormat("llama.attention.layer_norm_rms_epsilon is %g, must be above 0 and at most %g", *eps,
                                   kMaxNormEps));
  }
  config->rms_norm_eps = static_cast<float>(*eps);
  BATON_ASSIGN_OR_RETURN(const std::optional<double> theta, document.Float("llama.rope.freq_base"));
  if (!theta.has_value()) return absl::OkStatus();
  if (!(*theta >= 1 && *theta <= kMaxRopeTheta)) {
    return Refused(absl::StrFormat("llama.rope.freq_base is %g, must be 1 to %g", *theta, kMaxRopeTheta));
  }
  config->rope_theta = static_cast<float>(*theta);
  return absl::OkStatus();
}

absl::Status CheckRopeScaling(const GgufDocument& document) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, document.String("llama.rope.scaling.type"));
  if (type.has_value() && *type == "none") return absl::OkStatus();
  for (const GgufEntry& entry : document.entries()) {
    if (entry.key.starts_with("llama.rope.scaling.") || entry.key == "llama.rope.scale_linear") {
      return NotBuilt(
          absl::StrCat("the model scales RoPE (", ShowText(entry.key), " is ", ShowGgufValue(entry.value), ")"));
    }
  }
  return absl::OkStatus();
}

// Variants of the architecture that change the arithmetic: absent or 0 means the plain model.
absl::Status CheckVariants(const GgufDocument& document) {
  constexpr std::array<std::string_view, 4> kPlainWhenZero = {"llama.expert_count", "llama.expert_used_count",
                                                              "llama.attention.sliding_window", "split.count"};
  for (const std::string_view key : kPlainWhenZero) {
    BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> value, document.Integer(key));
    const int64_t plain = key == "split.count" ? 1 : 0;
    if (value.value_or(0) != 0 && *value != plain) return NotBuilt(absl::StrCat(ToAbsl(key), " is ", *value));
  }
  return CheckRopeScaling(document);
}

absl::Status ReadHeads(const GgufDocument& document, ModelConfig* config) {
  BATON_ASSIGN_OR_RETURN(config->heads, RequiredInteger(document, {"llama.attention.head_count", kMaxHeads}));
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> kv_heads,
                         OptionalInteger(document, {"llama.attention.head_count_kv", kMaxHeads}));
  config->kv_heads = kv_heads.value_or(config->heads);
  if (config->heads % config->kv_heads != 0) {
    return Refused(absl::StrCat("llama.attention.head_count ", config->heads,
                                " is not a multiple of llama.attention.head_count_kv ", config->kv_heads));
  }
  if (config->hidden_size % config->heads != 0) {
    return Refused(absl::StrCat("llama.embedding_length ", config->hidden_size,
                                " is not a multiple of llama.attention.head_count ", config->heads));
  }
  config->head_dim = config->hidden_size / config->heads;
  if (config->head_dim % 2 != 0 || config->head_dim > kMaxHeadDim) {
    return Refused(absl::StrCat("the head size (llama.embedding_length / llama.attention.head_count) is ",
                                config->head_dim, ", must be even and at most ", kMaxHeadDim));
  }
  for (const std::string_view key :
       {"llama.rope.dimension_count", "llama.attention.key_length", "llama.attention.value_length"}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> size, OptionalInteger(document, {key, kMaxHiddenSize}));
    if (size.has_value() && *size != config->head_dim) {
      return NotBuilt(absl::StrCat(ToAbsl(key), " is ", *size, " with heads of ", config->head_dim));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadVocabSize(const GgufDocument& document, ModelConfig* config) {
  const TensorView* embedding = document.FindTensor("token_embd.weight");
  if (embedding == nullptr) {
    return absl::InvalidArgumentError("damaged GGUF file: tensor token_embd.weight is missing; fetch the file again");
  }
  if (embedding->cols != config->hidden_size || embedding->rows > kMaxVocabSize) {
    return Refused(absl::StrCat("token_embd.weight is ", embedding->rows, " x ", embedding->cols, ", must be at most ",
                                kMaxVocabSize, " x llama.embedding_length ", config->hidden_size));
  }
  config->vocab_size = static_cast<int32_t>(embedding->rows);
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> stated,
                         OptionalInteger(document, {"llama.vocab_size", kMaxVocabSize}));
  if (stated.has_value() && *stated != config->vocab_size) {
    return Refused(
        absl::StrCat("llama.vocab_size is ", *stated, ", token_embd.weight has ", config->vocab_size, " rows"));
  }
  BATON_ASSIGN_OR_RETURN(const auto* tokens, document.StringArray("tokenizer.ggml.tokens"));
  if (tokens != nullptr && tokens->size() != static_cast<size_t>(config->vocab_size)) {
    return Refused(absl::StrCat("tokenizer.ggml.tokens has ", tokens->size(), " tokens, token_embd.weight has ",
                                config->vocab_size, " rows"));
  }
  return absl::OkStatus();
}

// "blk.12.attn_q.weight" of a layer below `layers`, the number written without sign or leading zeros.
bool IsLayerTensor(std::string_view name, int32_t layers) {
  if (!name.starts_with(kBlockPrefix)) return false;
  name.remove_prefix(kBlockPrefix.size());
  int32_t layer = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || layer < 0 || layer >= layers) return false;
  const auto digits = static_cast<size_t>(end - name.data());
  if (digits != absl::StrCat(layer).size() || digits >= name.size() || name[digits] != '.') return false;
  name.remove_prefix(digits + 1);
  return std::find(kLayerTensors.begin(), kLayerTensors.end(), name) != kLayerTensors.end();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const GgufDocument& document) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> architecture, document.String("general.architecture"));
  if (!architecture.has_value()) return Refused("general.architecture is missing");
  if (*architecture != "llama") {
    return absl::UnimplementedError(
        absl::StrCat("architecture ", ShowText(*architecture), ": Baton runs llama; use a model of that architecture"));
  }
  BATON_RETURN_IF_ERROR(CheckVariants(document));
  ModelConfig config;
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, document.String("general.name"));
  config.name = std::string(name.value_or(""));
  BATON_ASSIGN_OR_RETURN(config.layers, RequiredInteger(document, {"llama.block_count", kMaxLayers}));
  BATON_ASSIGN_OR_RETURN(config.hidden_size, RequiredInteger(document, {"llama.embedding_length", kMaxHiddenSize}));
  BATON_ASSIGN_OR_RETURN(config.ffn_size, RequiredInteger(document, {"llama.feed_forward_length", kMaxFfnSize}));
  BATON_ASSIGN_OR_RETURN(config.context_length, RequiredInteger(document, {"llama.context_length", kMaxContextLength}));
  BATON_RETURN_IF_ERROR(ReadHeads(document, &config));
  BATON_RETURN_IF_ERROR(ReadFloats(document, &config));
  BATON_RETURN_IF_ERROR(ReadVocabSize(document, &config));
  return config;
}

absl::Status CheckTensorNames(const GgufDocument& document, const ModelConfig& config) {
  for (const TensorView& tensor : document.tensors()) {
    if (std::find(kModelTensors.begin(), kModelTensors.end(), tensor.name) != kModelTensors.end()) continue;
    if (IsLayerTensor(tensor.name, config.layers)) continue;
    return NotBuilt(absl::StrCat("tensor ", ShowText(tensor.name), " is not part of a plain llama model of ",
                                 config.layers, " layers"));
  }
  return absl::OkStatus();
}

}  // namespace baton::modelfile
