// What each architecture's metadata say beyond the sizes. To add one: a row of kEntries, its tensor names and its
// reader.
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "modelfile/config_reader.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

constexpr std::array<std::string_view, 9> kLlamaTensors = {"attn_norm.weight", "attn_q.weight",      "attn_k.weight",
                                                           "attn_v.weight",    "attn_output.weight", "ffn_norm.weight",
                                                           "ffn_gate.weight",  "ffn_up.weight",      "ffn_down.weight"};
constexpr std::array<std::string_view, 13> kGemma3Tensors = {
    "attn_norm.weight",          "attn_q.weight",      "attn_k.weight",      "attn_v.weight",
    "attn_q_norm.weight",        "attn_k_norm.weight", "attn_output.weight", "ffn_norm.weight",
    "ffn_gate.weight",           "ffn_up.weight",      "ffn_down.weight",    "post_ffw_norm.weight",
    "post_attention_norm.weight"};

absl::Status ReadLlama(const ConfigReader& reader, ModelConfig* config) {
  BATON_RETURN_IF_ERROR(reader.MustBeZero("attention.sliding_window"));
  config->attention_scale = 1.0f / std::sqrt(static_cast<float>(config->head_dim));
  return absl::OkStatus();
}

// Every sixth layer sees everything unless the file says otherwise: another period, or a flag for each layer.
absl::Status ReadSlidingLayers(const ConfigReader& reader, ModelConfig* config) {
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
    config->sliding_layers[static_cast<size_t>(i)] = (i + 1) % period.value_or(6) != 0;
  }
  return absl::OkStatus();
}

// Gemma 3 (arxiv.org/abs/2503.19786). GGUF has no key for what all of its sizes share, nor for the query scale: the
// largest, of 62 layers, divides by the root of hidden size over heads, the others by that of the head size.
absl::Status ReadGemma3(const ConfigReader& reader, ModelConfig* config) {
  constexpr int32_t kLargestLayers = 62;
  for (const std::string_view key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    BATON_RETURN_IF_ERROR(reader.MustBeZero(key));
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<int32_t> window,
                         reader.Optional("attention.sliding_window", kMaxContextLength));
  if (window.has_value()) {
    config->sliding_window = *window;
    BATON_RETURN_IF_ERROR(ReadSlidingLayers(reader, config));
    BATON_ASSIGN_OR_RETURN(const std::optional<double> theta,
                           reader.OptionalFloat("rope.freq_base_swa", {1, kMaxRopeTheta}));
    config->sliding_rope_theta = static_cast<float>(theta.value_or(10000.0));
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

constexpr std::array<ArchitectureEntry, 2> kEntries = {{
    {Architecture::kLlama, "llama", kLlamaTensors, ReadLlama},
    {Architecture::kGemma3, "gemma3", kGemma3Tensors, ReadGemma3},
}};

}  // namespace

absl::Span<const ArchitectureEntry> Architectures() { return kEntries; }

std::string_view ArchitectureName(Architecture architecture) {
  const auto index = static_cast<size_t>(architecture);
  BATON_CHECK(index < kEntries.size());
  return kEntries[index].name;
}

}  // namespace baton::modelfile
