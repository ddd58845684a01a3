#include "modelfile/tensor_names.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/check.h"
#include "common/status.h"
#include "modelfile/architecture.h"
#include "modelfile/gguf_document.h"

namespace baton::modelfile {
namespace {

constexpr LayerTensor kModelTensors[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};
constexpr std::string_view kGgufLayerPrefix = "blk.";
constexpr std::string_view kHfLayerPrefix = "model.layers.";

absl::Span<const LayerTensor> LayerTensorsOf(const ModelConfig& config) {
  const auto is_of_config = [&](const Architecture* known) { return known->name == config.architecture; };
  const auto found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures), is_of_config);
  BATON_CHECK(found != std::end(kArchitectures));
  return (*found)->layer_tensors;
}

const LayerTensor* Find(absl::Span<const LayerTensor> table, std::string_view LayerTensor::*column,
                        std::string_view name) {
  const auto has_name = [&](const LayerTensor& row) { return !name.empty() && row.*column == name; };
  const auto found = std::find_if(table.begin(), table.end(), has_name);
  return found == table.end() ? nullptr : &*found;
}

struct NameInLayer {
  int32_t layer = 0;
  std::string_view name;
};

// Splits a name such as PREFIX12.attn_q.weight. None unless the layer exists and its number has neither sign nor
// leading zeros.
std::optional<NameInLayer> SplitLayer(std::string_view text, std::string_view prefix, const ModelConfig& config) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int32_t layer = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  if (error != std::errc() || layer < 0 || layer >= config.layers) return std::nullopt;
  const auto digits = static_cast<size_t>(end - text.data());
  if (digits != absl::StrCat(layer).size() || digits >= text.size() || text[digits] != '.') return std::nullopt;
  return NameInLayer{.layer = layer, .name = text.substr(digits + 1)};
}

}  // namespace

bool IsEngineTensor(std::string_view name, const ModelConfig& config) {
  if (Find(kModelTensors, &LayerTensor::gguf, name) != nullptr) return true;
  const std::optional<NameInLayer> split = SplitLayer(name, kGgufLayerPrefix, config);
  return split.has_value() && Find(LayerTensorsOf(config), &LayerTensor::gguf, split->name) != nullptr;
}

absl::StatusOr<std::string> EngineTensorName(std::string_view huggingface_name, const ModelConfig& config) {
  if (const LayerTensor* row = Find(kModelTensors, &LayerTensor::huggingface, huggingface_name)) {
    return std::string(row->gguf);
  }
  if (const std::optional<NameInLayer> split = SplitLayer(huggingface_name, kHfLayerPrefix, config)) {
    const LayerTensor* row = Find(LayerTensorsOf(config), &LayerTensor::huggingface, split->name);
    if (row != nullptr && row->gguf.empty()) return std::string();
    if (row != nullptr) return absl::StrCat(ToAbsl(kGgufLayerPrefix), split->layer, ".", ToAbsl(row->gguf));
  }
  return absl::UnimplementedError(absl::StrCat("tensor ", ShowText(huggingface_name),
                                               " is not part of a plain model of ", config.layers,
                                               " layers, which Baton runs; use another model"));
}

}  // namespace baton::modelfile
