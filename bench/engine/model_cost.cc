#include "bench/engine/model_cost.h"

#include <algorithm>
#include <string_view>

namespace baton::bench {
namespace {

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";

// How many tokens the rows [0, tokens) attend to together.
int64_t CausalPairs(int64_t tokens) { return tokens * (tokens + 1) / 2; }

// The same as a mean over all layers.
int64_t PairsALayer(const ModelCost& cost, int64_t tokens) {
  const int64_t seen = std::min<int64_t>(tokens, cost.window);
  const int64_t windowed = CausalPairs(seen) + (tokens - seen) * cost.window;
  const int64_t full_layers = cost.layers - cost.sliding_layers;
  return (full_layers * CausalPairs(tokens) + cost.sliding_layers * windowed) / cost.layers;
}

}  // namespace

ModelCost CostOf(const modelfile::ModelFile& file, const engine::CpuModelOptions& options, int64_t kv_token_bytes) {
  ModelCost cost;
  cost.is_int8 = options.numerics == engine::Numerics::kExact;
  cost.kv_token_bytes = kv_token_bytes;
  const std::string_view head = file.Find(kHead) != nullptr ? kHead : kEmbedding;
  for (const modelfile::TensorView& tensor : file.tensors()) {
    // Norms are vectors. An embedding that is not also the head is looked up, not multiplied.
    if (tensor.rows == 1 || (tensor.name == kEmbedding && head != kEmbedding)) continue;
    const int64_t macs = tensor.rows * tensor.cols;
    modelfile::TensorType type = engine::PackedType(tensor, options.weights);
    // As kernels::FormatOf says.
    if (type == modelfile::TensorType::kF8E4M3) type = modelfile::TensorType::kBf16;
    const int64_t bytes = cost.is_int8 ? macs / modelfile::TensorBlockElements(type) *
                                             static_cast<int64_t>(modelfile::TensorBlockBytes(type))
                                       : macs * int64_t{sizeof(float)};
    (tensor.name == head ? cost.head_macs : cost.layer_macs) += macs;
    (tensor.name == head ? cost.head_bytes : cost.layer_bytes) += bytes;
  }
  const modelfile::ModelConfig& config = file.config();
  cost.attention_macs = int64_t{2} * config.layers * config.heads * config.head_dim;
  cost.layers = config.layers;
  cost.window = config.sliding_window;
  for (int layer = 0; layer < config.layers; ++layer) cost.sliding_layers += config.Slides(layer) ? 1 : 0;
  return cost;
}

Work PrefillWork(const ModelCost& cost, const PrefillShape& shape) {
  const int64_t rows = int64_t{shape.prompts} * shape.prompt_tokens;
  const int64_t chunks = (rows + shape.chunk_tokens - 1) / shape.chunk_tokens;
  const int64_t macs = rows * cost.layer_macs + shape.prompts * cost.head_macs;
  const int64_t attention = shape.prompts * PairsALayer(cost, shape.prompt_tokens) * cost.attention_macs;
  return {.bytes = chunks * cost.layer_bytes + shape.prompts * cost.head_bytes + rows * cost.kv_token_bytes,
          .int8_macs = cost.is_int8 ? macs : 0,
          .float_macs = attention + (cost.is_int8 ? 0 : macs)};
}

Work DecodeWork(const ModelCost& cost, const DecodeShape& shape) {
  const int64_t rows = int64_t{shape.streams} * shape.steps;
  const int64_t macs = rows * (cost.layer_macs + cost.head_macs);
  const int64_t context =
      PairsALayer(cost, shape.context_tokens + shape.steps) - PairsALayer(cost, shape.context_tokens);
  const int64_t pairs = shape.streams * context;
  return {.bytes = shape.steps * (cost.layer_bytes + cost.head_bytes) + pairs * cost.kv_token_bytes,
          .int8_macs = cost.is_int8 ? macs : 0,
          .float_macs = pairs * cost.attention_macs + (cost.is_int8 ? 0 : macs)};
}

double FloatMacsPerSecond(const MachineLimits& limits) {
  return std::max(BestMacsPerSecond(limits, "fp32"), BestMacsPerSecond(limits, "bf16"));
}

LimitTime LimitOf(const Work& work, const MachineLimits& limits) {
  double compute = 0;
  // A processor without the instructions measured has no such limit.
  if (const double rate = BestMacsPerSecond(limits, "int8"); rate > 0) {
    compute += static_cast<double>(work.int8_macs) / rate;
  }
  if (const double rate = FloatMacsPerSecond(limits); rate > 0) compute += static_cast<double>(work.float_macs) / rate;
  const double memory = static_cast<double>(work.bytes) / limits.read_bytes_per_s;
  return memory > compute ? LimitTime{memory, "memory"} : LimitTime{compute, "compute"};
}

}  // namespace baton::bench
