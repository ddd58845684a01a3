#include "engine/model/transformer_weights.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"

namespace baton::engine {
namespace {

using kernels::PackedMatrix;
using modelfile::ModelConfig;
using modelfile::TensorView;

// A thread packs this many blocks of 16 rows at a time.
constexpr int kPackBlocks = 16;

absl::Status CheckMultiple(const char* what, int64_t value, int64_t unit) {
  if (value > 0 && value % unit == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrFormat("the %s is %d, and Baton runs positive multiples of %d; use another model", what, value, unit));
}

absl::Status CheckConfig(const ModelConfig& c) {
  BATON_RETURN_IF_ERROR(CheckMultiple("hidden size", c.hidden_size, kernels::kGroup));
  BATON_RETURN_IF_ERROR(CheckMultiple("feed-forward size", c.ffn_size, kernels::kGroup));
  BATON_RETURN_IF_ERROR(CheckMultiple("head dimension", c.head_dim, kernels::kGroup));
  BATON_RETURN_IF_ERROR(CheckMultiple("number of layers", c.layers, 1));
  BATON_RETURN_IF_ERROR(CheckMultiple("vocabulary size", c.vocab_size, 1));
  BATON_RETURN_IF_ERROR(CheckMultiple("number of KV heads", c.kv_heads, 1));
  BATON_RETURN_IF_ERROR(CheckMultiple("number of heads", c.heads, c.kv_heads));
  if (!(c.attention_scale > 0)) {
    return absl::InvalidArgumentError(absl::StrFormat("the attention scale is %g, must be above 0", c.attention_scale));
  }
  if (!c.sliding_layers.empty() && (c.sliding_window < 1 || c.sliding_layers.size() != static_cast<size_t>(c.layers))) {
    return absl::InvalidArgumentError(absl::StrFormat("a window of %d and %d sliding flags for %d layers",
                                                      c.sliding_window, c.sliding_layers.size(), c.layers));
  }
  return absl::OkStatus();
}

// Collects the matrices, then packs them all.
class Loader {
 public:
  Loader(const modelfile::ModelFile& file, const CpuModelOptions& options) : file_(file), options_(options) {}

  bool Has(const std::string& name) const { return file_.Find(name) != nullptr; }

  absl::StatusOr<const TensorView*> Find(const std::string& name, int64_t rows, int64_t cols) const {
    const TensorView* const tensor = file_.Find(name);
    if (tensor == nullptr) return absl::NotFoundError(absl::StrFormat("the model has no tensor %s", name));
    if (tensor->rows != rows || tensor->cols != cols) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor %s is %d x %d, expected %d x %d", name, tensor->rows, tensor->cols, rows, cols));
    }
    return tensor;
  }

  absl::Status Norm(const std::string& name, int64_t size, std::vector<float>& out,
                    kernels::RowOrder order = {}) const {
    BATON_ASSIGN_OR_RETURN(const TensorView* const tensor, Find(name, 1, size));
    std::vector<float> values(static_cast<size_t>(size));
    kernels::DequantizeRow(*tensor, 0, values.data());
    for (int i = 0; i < size; ++i) {
      const float weight = values[static_cast<size_t>(order.Source(i))];
      out.push_back(file_.config().norm_weight_plus_one ? 1.0f + weight : weight);
    }
    return absl::OkStatus();
  }

  // `matrix` must stay where it is until Pack.
  absl::Status Matrix(const std::string& name, int64_t rows, int64_t cols, PackedMatrix& matrix,
                      kernels::RowOrder order = {}) {
    BATON_ASSIGN_OR_RETURN(const TensorView* const tensor, Find(name, rows, cols));
    const auto format = PackedFormat(*tensor, options_.numerics, options_.weights);
    matrix = kernels::ShapeOf(format, static_cast<int>(rows), static_cast<int>(cols));
    tasks_.push_back({{.tensor = tensor, .type = PackedType(*tensor, options_.weights), .order = order}, &matrix});
    return absl::OkStatus();
  }

  kernels::AlignedBuffer Pack(kernels::ThreadPool& pool) {
    size_t bytes = 0;
    for (const Task& task : tasks_) bytes += task.matrix->bytes();
    kernels::AlignedBuffer storage(bytes);
    if (options_.progress != nullptr) options_.progress->total_bytes = static_cast<int64_t>(bytes);
    uint8_t* next = storage.data();
    for (const Task& task : tasks_) {
      task.matrix->data = next;
      next += task.matrix->bytes();
    }
    pool.Run([this](int) { PackSome(); });
    return storage;
  }

 private:
  struct Task {
    kernels::PackSource source;
    PackedMatrix* matrix;
  };

  void PackSome() {
    int first = 0;
    int chunk = next_chunk_.fetch_add(1);
    for (const Task& task : tasks_) {
      const int chunks = (task.matrix->col_blocks + kPackBlocks - 1) / kPackBlocks;
      for (; chunk < first + chunks; chunk = next_chunk_.fetch_add(1)) {
        const int begin = (chunk - first) * kPackBlocks;
        const int end = std::min(begin + kPackBlocks, task.matrix->col_blocks);
        kernels::PackBlocks(task.source, begin, end, *task.matrix);
        if (options_.progress != nullptr) {
          options_.progress->packed_bytes += (end - begin) * static_cast<int64_t>(task.matrix->block_stride);
        }
      }
      first += chunks;
    }
  }

  const modelfile::ModelFile& file_;
  const CpuModelOptions& options_;
  std::vector<Task> tasks_;
  std::atomic<int> next_chunk_{0};
};

absl::Status LoadLayer(Loader& loader, const ModelConfig& c, int index, TransformerLayer& layer) {
  const std::string prefix = absl::StrFormat("blk.%d.", index);
  const int64_t q = static_cast<int64_t>(c.heads) * c.head_dim;
  const int64_t kv = static_cast<int64_t>(c.kv_heads) * c.head_dim;
  const kernels::RowOrder rope{c.rope_interleaved ? 0 : c.head_dim};
  BATON_RETURN_IF_ERROR(loader.Norm(prefix + "attn_norm.weight", c.hidden_size, layer.attention_norm));
  BATON_RETURN_IF_ERROR(loader.Norm(prefix + "ffn_norm.weight", c.hidden_size, layer.ffn_norm));
  if (c.query_key_norm) {
    BATON_RETURN_IF_ERROR(loader.Norm(prefix + "attn_q_norm.weight", c.head_dim, layer.query_norm, rope));
    BATON_RETURN_IF_ERROR(loader.Norm(prefix + "attn_k_norm.weight", c.head_dim, layer.key_norm, rope));
  }
  if (c.post_norms) {
    BATON_RETURN_IF_ERROR(loader.Norm(prefix + "post_attention_norm.weight", c.hidden_size, layer.attention_post_norm));
    BATON_RETURN_IF_ERROR(loader.Norm(prefix + "post_ffw_norm.weight", c.hidden_size, layer.ffn_post_norm));
  }
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_q.weight", q, c.hidden_size, layer.query, rope));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_k.weight", kv, c.hidden_size, layer.key, rope));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_v.weight", kv, c.hidden_size, layer.value));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_output.weight", c.hidden_size, q, layer.output));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "ffn_gate.weight", c.ffn_size, c.hidden_size, layer.gate));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "ffn_up.weight", c.ffn_size, c.hidden_size, layer.up));
  return loader.Matrix(prefix + "ffn_down.weight", c.hidden_size, c.ffn_size, layer.down);
}

// Finds every tensor and checks its shape. A head that is the embedding stays without rows.
absl::Status CollectTensors(Loader& loader, const ModelConfig& c, TransformerWeights& weights) {
  BATON_RETURN_IF_ERROR(CheckConfig(c));
  weights.layers.resize(static_cast<size_t>(c.layers));
  BATON_RETURN_IF_ERROR(loader.Matrix("token_embd.weight", c.vocab_size, c.hidden_size, weights.embedding));
  for (int i = 0; i < c.layers; ++i) {
    BATON_RETURN_IF_ERROR(LoadLayer(loader, c, i, weights.layers[static_cast<size_t>(i)]));
  }
  BATON_RETURN_IF_ERROR(loader.Norm("output_norm.weight", c.hidden_size, weights.output_norm));
  if (!loader.Has("output.weight")) return absl::OkStatus();
  return loader.Matrix("output.weight", c.vocab_size, c.hidden_size, weights.head);
}

bool HasFp8Nan(const uint8_t* data, size_t bytes) {
  bool found = false;
  for (size_t i = 0; i < bytes; ++i) found |= (data[i] & 0x7f) == 0x7f;
  return found;
}

}  // namespace

kernels::WeightFormat PackedFormat(const TensorView& matrix, Numerics numerics, Weights weights) {
  return numerics == Numerics::kFp32 ? kernels::WeightFormat::kF32 : kernels::FormatOf(PackedType(matrix, weights));
}

absl::Status CheckTransformerWeights(const modelfile::ModelFile& file) {
  const CpuModelOptions options;
  Loader loader(file, options);
  TransformerWeights unpacked;
  return CollectTensors(loader, file.config(), unpacked);
}

absl::Status CheckFp8Elements(const modelfile::ModelFile& file, kernels::ThreadPool& pool) {
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.type != modelfile::TensorType::kF8E4M3) continue;
    std::atomic<bool> has_nan{false};
    pool.Run([&](int thread) {
      const size_t part = (tensor.bytes + static_cast<size_t>(pool.size()) - 1) / static_cast<size_t>(pool.size());
      const size_t begin = std::min(static_cast<size_t>(thread) * part, tensor.bytes);
      if (HasFp8Nan(tensor.data + begin, std::min(part, tensor.bytes - begin))) has_nan = true;
    });
    if (!has_nan) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "tensor %s has a NaN: a byte 0x7f or 0xff; fetch the model again, or use another one", tensor.name));
  }
  return absl::OkStatus();
}

absl::StatusOr<TransformerWeights> LoadTransformerWeights(const modelfile::ModelFile& file,
                                                          const CpuModelOptions& options, kernels::ThreadPool& pool) {
  TransformerWeights weights;
  weights.config = file.config();
  Loader loader(file, options);
  BATON_RETURN_IF_ERROR(CollectTensors(loader, weights.config, weights));
  BATON_RETURN_IF_ERROR(CheckFp8Elements(file, pool));
  weights.storage = loader.Pack(pool);
  if (weights.head.rows == 0) weights.head = weights.embedding;
  return weights;
}

}  // namespace baton::engine
