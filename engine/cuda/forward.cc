#include "engine/cuda/forward.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "engine/cuda/kernels/shapes.h"

namespace baton::engine::cuda {
namespace {

// The bound of the buffer for what the splits of attention leave behind.
constexpr size_t kMostPartialBytes = size_t{64} << 20;
// A launch of fewer blocks than this for each multiprocessor leaves much of the device idle.
constexpr int kBlocksToFill = 4;

}  // namespace

Forward::Forward(CudaWeights weights, const KvLayout& layout, AttentionPath path)
    : weights_(std::move(weights)), layout_(layout), places_(layout.Places()), path_(path) {}

absl::StatusOr<std::unique_ptr<Forward>> Forward::Create(const Device& device, CudaWeights weights,
                                                         const KvLayout& layout, int max_rows, AttentionPath path) {
  std::unique_ptr<Forward> forward(new Forward(std::move(weights), layout, path));
  BATON_ASSIGN_OR_RETURN(forward->kernels_, KernelSet::Load(device));
  BATON_RETURN_IF_ERROR(forward->Allocate(device, max_rows));
  return forward;
}

size_t Forward::PartialBytes(int rows, int splits) const {
  return static_cast<size_t>(rows) * config().heads * splits * (config().head_dim + 2) * sizeof(float);
}

absl::Status Forward::Allocate(const Device& device, int max_rows) {
  const modelfile::ModelConfig& c = config();
  multiprocessors_ = device.multiprocessors();
  head_rows_ = std::min(max_rows, kMostHeadRows);
  const size_t rows = static_cast<size_t>(max_rows);
  const size_t hidden = static_cast<size_t>(c.hidden_size);
  const size_t ffn = static_cast<size_t>(c.ffn_size);
  const size_t head_dim = static_cast<size_t>(c.head_dim);
  const size_t query = static_cast<size_t>(c.heads) * head_dim;
  const size_t qkv = query + 2 * static_cast<size_t>(c.kv_heads) * head_dim;
  const int most_splits = (c.context_length + kSplitTokens - 1) / kSplitTokens;
  // A captured step has up to twice as many splits as its rows.
  const size_t partial = std::min(kMostPartialBytes, PartialBytes(max_rows, 2 * most_splits));
  const size_t logits = static_cast<size_t>(head_rows_) * static_cast<size_t>(logits_stride());
  const std::pair<DeviceBuffer*, size_t> buffers[] = {
      {&residual_, rows * hidden * sizeof(float)}, {&norm_, rows * hidden * sizeof(Bf16)},
      {&branch_, rows * hidden * sizeof(float)},   {&qkv_, rows * qkv * sizeof(float)},
      {&query_, rows * query * sizeof(Bf16)},      {&attended_, rows * query * sizeof(Bf16)},
      {&gate_up_, rows * 2 * ffn * sizeof(float)}, {&activated_, rows * ffn * sizeof(Bf16)},
      {&hidden_, rows * hidden * sizeof(float)},   {&partial_, partial},
      {&logits_, logits * sizeof(float)},          {&tokens_, static_cast<size_t>(head_rows_) * sizeof(int32_t)},
  };
  for (const auto& [buffer, bytes] : buffers) {
    BATON_ASSIGN_OR_RETURN(*buffer, DeviceBuffer::Allocate(device, bytes));
  }
  return absl::OkStatus();
}

uint8_t* Forward::LayerPart(int layer) const {
  const size_t index = static_cast<size_t>(places_[static_cast<size_t>(layer)].index);
  return pool_ + index * 2 * static_cast<size_t>(layout_.kv_heads) * layout_.head_part_bytes();
}

void Forward::Product(const Matrix& matrix, const Bf16* acts, int rows, float* out, const Stream& stream) const {
  const ProductParams params{.weights = matrix, .acts = acts, .out = out, .rows = rows, .out_stride = matrix.n};
  kernels_.Product(params, stream);
}

void Forward::AddNorm(int rows, const float* branch, const float* post_weight, const float* weight, Bf16* out,
                      const Stream& stream) const {
  const AddNormParams params{.residual = residual_.at<float>(),
                             .branch = branch,
                             .post_weight = post_weight,
                             .weight = weight,
                             .source = nullptr,
                             .out = out,
                             .out_f32 = nullptr,
                             .width = config().hidden_size,
                             .epsilon = config().rms_norm_eps};
  kernels_.AddNorm(params, rows, stream);
}

void Forward::Layers(const ForwardShape& shape, const StepData& data, const Stream& stream,
                     absl::Span<const LayerMark> marks) const {
  const modelfile::ModelConfig& c = config();
  const EmbedParams embed{.embedding = weights_.embedding,
                          .tokens = data.tokens(),
                          .chosen = tokens_.at<int32_t>(),
                          .residual = residual_.at<float>(),
                          .scale = c.embedding_scale};
  kernels_.Embed(embed, shape.rows, stream);
  AddNorm(shape.rows, nullptr, nullptr, weights_.layers.front().attention_norm, norm_.at<Bf16>(), stream);
  auto mark = marks.begin();
  for (int i = 0; i < c.layers; ++i) {
    const bool is_marked = mark != marks.end() && mark->layers == i + 1;
    Layer(i, shape, data, stream, is_marked ? &mark->passed : nullptr);
    if (is_marked) ++mark;
  }
  if (shape.outputs == 0) return;
  const AddNormParams outputs{.residual = residual_.at<float>(),
                              .branch = nullptr,
                              .post_weight = nullptr,
                              .weight = weights_.output_norm,
                              .source = data.output_rows(),
                              .out = norm_.at<Bf16>(),
                              .out_f32 = hidden_.at<float>(),
                              .width = c.hidden_size,
                              .epsilon = c.rms_norm_eps};
  kernels_.AddNorm(outputs, shape.outputs, stream);
}

void Forward::Layer(int index, const ForwardShape& shape, const StepData& data, const Stream& stream,
                    const Event* stored) const {
  const modelfile::ModelConfig& c = config();
  const CudaLayer& layer = weights_.layers[static_cast<size_t>(index)];
  const int rows = shape.rows;
  const bool is_last = index + 1 == c.layers;
  // The norm behind the last layer is of output rows alone.
  const float* const next_norm =
      is_last ? weights_.output_norm : weights_.layers[static_cast<size_t>(index) + 1].attention_norm;
  Product(layer.qkv, norm_.at<Bf16>(), rows, qkv_.at<float>(), stream);
  StoreQkv(index, shape, data, stream);
  if (stored != nullptr) stored->Record(stream);
  Attend(index, shape, data, stream);
  Product(layer.output, attended_.at<Bf16>(), rows, branch_.at<float>(), stream);
  AddNorm(rows, branch_.at<float>(), layer.attention_post_norm, layer.ffn_norm, norm_.at<Bf16>(), stream);
  Product(layer.gate_up, norm_.at<Bf16>(), rows, gate_up_.at<float>(), stream);
  const ActivateParams activate{.gate_up = gate_up_.at<float>(),
                                .out = activated_.at<Bf16>(),
                                .ffn = c.ffn_size,
                                .gelu = c.activation == modelfile::Activation::kGeGluTanh ? 1 : 0};
  kernels_.Activate(activate, rows, stream);
  Product(layer.down, activated_.at<Bf16>(), rows, branch_.at<float>(), stream);
  AddNorm(rows, branch_.at<float>(), layer.ffn_post_norm, next_norm, is_last ? nullptr : norm_.at<Bf16>(), stream);
}

bool Forward::Splits(const ForwardShape& shape, int splits) const {
  if (path_ == AttentionPath::kWhole || PartialBytes(shape.rows, splits) > partial_.bytes()) return false;
  if (path_ == AttentionPath::kSplit) return true;
  return splits > 1 && shape.tiles.small * config().kv_heads < kBlocksToFill * multiprocessors_;
}

void Forward::StoreQkv(int index, const ForwardShape& shape, const StepData& data, const Stream& stream) const {
  const modelfile::ModelConfig& c = config();
  const CudaLayer& layer = weights_.layers[static_cast<size_t>(index)];
  const StoreQkvParams store{.qkv = qkv_.at<float>(),
                             .query_norm = layer.query_norm,
                             .key_norm = layer.key_norm,
                             .rotation = data.rotation(c.Slides(index)),
                             .query = query_.at<Bf16>(),
                             .pool = LayerPart(index),
                             .row_blocks = data.row_blocks(places_[static_cast<size_t>(index)].group),
                             .row_slots = data.slots(),
                             .block_bytes = layout_.block_bytes(),
                             .heads = c.heads,
                             .kv_heads = c.kv_heads,
                             .head_dim = c.head_dim,
                             .rope_neighbours = c.rope_interleaved ? 1 : 0,
                             .epsilon = c.rms_norm_eps};
  kernels_.StoreQkv(store, shape.rows, stream);
}

void Forward::Attend(int index, const ForwardShape& shape, const StepData& data, const Stream& stream) const {
  const modelfile::ModelConfig& c = config();
  const bool slides = c.Slides(index);
  // The splits of a window are few, however far the row is.
  const int window_splits = (c.sliding_window + kTileRows) / kSplitTokens + 2;
  const int splits = slides ? std::min(shape.splits, window_splits) : shape.splits;
  AttentionParams attention{.query = query_.at<Bf16>(),
                            .pool = LayerPart(index),
                            .blocks = data.blocks(),
                            .tiles = data.query_tiles(),
                            .out = attended_.at<Bf16>(),
                            .partial = partial_.at<float>(),
                            .block_bytes = layout_.block_bytes(),
                            .row_positions = data.positions(),
                            .group = places_[static_cast<size_t>(index)].group,
                            .splits = splits,
                            .heads = c.heads,
                            .kv_heads = c.kv_heads,
                            .head_dim = c.head_dim,
                            .window = slides ? c.sliding_window : 0,
                            .scale = c.attention_scale};
  const StepTiles& tiles = shape.tiles;
  if (Splits(shape, splits)) return kernels_.AttendInSplits(attention, shape.rows, tiles.small, stream);
  if (tiles.alone > 0) kernels_.AttendDecode(attention, tiles.alone, stream);
  if (tiles.large == 0) return;
  attention.tiles = data.query_tiles() + tiles.small;
  kernels_.AttendPrefill(attention, tiles.large, stream);
}

void Forward::Head(int first, int count, const SampleRow* rows, const Stream& stream) const {
  const size_t offset = static_cast<size_t>(first) * static_cast<size_t>(config().hidden_size) * sizeof(Bf16);
  Product(weights_.head, norm_.at<Bf16>(offset), count, logits_.at<float>(), stream);
  if (!chooses()) return;
  if (rows != nullptr) {
    const SampleParams sample{
        .logits = logits_.at<float>(), .rows = rows, .tokens = tokens_.at<int32_t>(), .vocab = config().vocab_size};
    return kernels_.Sample(sample, count, stream);
  }
  const ArgmaxParams argmax{
      .logits = logits_.at<float>(), .tokens = tokens_.at<int32_t>(), .vocab = config().vocab_size};
  kernels_.Argmax(argmax, count, stream);
}

void Forward::ZeroRows(BlockId block, int first_row, const Stream& stream) const {
  const ZeroRowsParams zero{.block = pool_ + static_cast<size_t>(block) * layout_.block_bytes(),
                            .kv_heads = layout_.kv_heads,
                            .head_dim = layout_.head_dim,
                            .first_row = first_row};
  kernels_.ZeroRows(zero, layout_.group_layers(), stream);
}

}  // namespace baton::engine::cuda
