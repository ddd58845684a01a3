#include "engine/cuda/cuda_weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"
#include "engine/cuda/weight_rows.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/model/transformer_weights.h"

namespace baton::engine::cuda {
namespace {

using modelfile::ModelConfig;
using modelfile::TensorView;

constexpr int kRowUnit = 16;
constexpr int kMaxHeadDimension = 256;
constexpr int kMaxHeadsPerKv = 16;
// Every matrix and vector begins at a multiple of this.
constexpr size_t kPlaceBytes = 256;
// Rows are encoded and copied in pieces of this size.
constexpr size_t kStagingBytes = 32u << 20;

absl::Status CheckShape(const ModelConfig& c) {
  if (c.head_dim > kMaxHeadDimension) {
    return absl::UnimplementedError(absl::StrFormat(
        "the head dimension is %d, and Baton's CUDA kernels take at most %d", c.head_dim, kMaxHeadDimension));
  }
  if (c.heads / c.kv_heads > kMaxHeadsPerKv) {
    return absl::UnimplementedError(absl::StrFormat(
        "%d heads share a KV head, and Baton's CUDA kernels take at most %d", c.heads / c.kv_heads, kMaxHeadsPerKv));
  }
  return absl::OkStatus();
}

// Collects matrices and vectors with their places in one allocation, then fills it.
class CudaLoader {
 public:
  CudaLoader(const modelfile::ModelFile& file, Weights weights) : file_(file), weights_(weights) {}

  // CheckTransformerWeights has seen every tensor that is asked for. `to` must stay where it is until Upload.
  void Norm(const std::string& name, const float*& to) {
    const TensorView& tensor = *file_.Find(name);
    vectors_.push_back({&tensor, Place(static_cast<size_t>(tensor.cols) * sizeof(float)), &to});
  }

  // Rows of several tensors, one below the other.
  void Rows(const std::vector<std::string>& names, Matrix& to) {
    MatrixTask task{.to = &to};
    int64_t rows = 0;
    for (const std::string& name : names) {
      const TensorView& tensor = *file_.Find(name);
      const RowSource source{&tensor, PackedType(tensor, weights_)};
      const RowFormat format = FormatFor(source.type);
      task.format = task.sources.empty() ? format : CommonFormat(task.format, format);
      to.k = static_cast<int32_t>(tensor.cols);
      rows += tensor.rows;
      task.sources.push_back(source);
    }
    task.rows = rows;
    to.n = static_cast<int32_t>((rows + kRowUnit - 1) / kRowUnit * kRowUnit);
    to.format = task.format.values;
    to.factor = task.format.factor;
    const RowBytes bytes = BytesOfRow(task.format, to.k);
    task.values = Place(static_cast<size_t>(to.n) * bytes.values);
    task.scales = Place(static_cast<size_t>(to.n) * bytes.scales);
    task.factors = Place(static_cast<size_t>(to.n) * bytes.factors);
    matrices_.push_back(std::move(task));
  }

  absl::StatusOr<DeviceBuffer> Upload(const Device& device, kernels::ThreadPool& pool, LoadProgress* progress) {
    if (progress != nullptr) progress->total_bytes = static_cast<int64_t>(bytes_);
    BATON_ASSIGN_OR_RETURN(DeviceBuffer storage, DeviceBuffer::Allocate(device, bytes_));
    BATON_ASSIGN_OR_RETURN(const PinnedBuffer staging, PinnedBuffer::Allocate(device, std::min(kStagingBytes, bytes_)));
    BATON_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
    stream.SetBytes(storage.address(), 0, bytes_);
    for (const VectorTask& task : vectors_) UploadVector(task, storage, staging, stream);
    for (const MatrixTask& task : matrices_) {
      UploadMatrix(task, storage, staging, stream, pool);
      if (progress != nullptr) progress->packed_bytes = static_cast<int64_t>(task.factors);
    }
    stream.Synchronize();
    return storage;
  }

 private:
  struct VectorTask {
    const TensorView* tensor;
    size_t place;
    const float** to;
  };
  struct MatrixTask {
    std::vector<RowSource> sources = {};
    RowFormat format = {};
    Matrix* to = nullptr;
    int64_t rows = 0;
    // Places.
    size_t values = 0;
    size_t scales = 0;
    size_t factors = 0;
  };

  size_t Place(size_t bytes) {
    const size_t place = bytes_;
    bytes_ += (bytes + kPlaceBytes - 1) / kPlaceBytes * kPlaceBytes;
    return place;
  }

  void UploadVector(const VectorTask& task, const DeviceBuffer& storage, const PinnedBuffer& staging,
                    const Stream& stream) const {
    float* const values = staging.at<float>();
    kernels::DequantizeRow(*task.tensor, 0, values);
    if (file_.config().norm_weight_plus_one) {
      for (int64_t i = 0; i < task.tensor->cols; ++i) values[i] = 1.0f + values[i];
    }
    stream.CopyToDevice(storage.address() + task.place, values, static_cast<size_t>(task.tensor->cols) * sizeof(float));
    stream.Synchronize();
    *task.to = storage.at<const float>(task.place);
  }

  void UploadMatrix(const MatrixTask& task, const DeviceBuffer& storage, const PinnedBuffer& staging,
                    const Stream& stream, kernels::ThreadPool& pool) const {
    Matrix& to = *task.to;
    to.values = storage.at<const void>(task.values);
    const RowBytes bytes = BytesOfRow(task.format, to.k);
    to.scales = bytes.scales == 0 ? nullptr : storage.at<const uint32_t>(task.scales);
    to.factors = bytes.factors == 0 ? nullptr : storage.at<const uint16_t>(task.factors);
    const int64_t piece = static_cast<int64_t>(staging.bytes() / bytes.total());
    for (int64_t first = 0; first < task.rows; first += piece) {
      const int64_t count = std::min(piece, task.rows - first);
      const size_t rows = static_cast<size_t>(count);
      uint8_t* const values = staging.at<uint8_t>();
      uint8_t* const scales = values + rows * bytes.values;
      uint8_t* const factors = scales + rows * bytes.scales;
      pool.Run([&](int thread) {
        RowEncoder encoder;
        for (int64_t i = thread; i < count; i += pool.size()) {
          const auto [source, index] = SourceOf(task, first + i);
          const size_t row = static_cast<size_t>(i);
          encoder.Encode(*source, index, task.format,
                         {.values = values + row * bytes.values,
                          .scales = reinterpret_cast<uint32_t*>(scales + row * bytes.scales),
                          .factors = reinterpret_cast<uint16_t*>(factors + row * bytes.factors)});
        }
      });
      const auto copy = [&](size_t place, size_t row_bytes, const uint8_t* from) {
        if (row_bytes == 0) return;
        stream.CopyToDevice(storage.address() + place + static_cast<size_t>(first) * row_bytes, from, rows * row_bytes);
      };
      copy(task.values, bytes.values, values);
      copy(task.scales, bytes.scales, scales);
      copy(task.factors, bytes.factors, factors);
      stream.Synchronize();
    }
  }

  static std::pair<const RowSource*, int64_t> SourceOf(const MatrixTask& task, int64_t row) {
    size_t i = 0;
    for (; row >= task.sources[i].tensor->rows; ++i) row -= task.sources[i].tensor->rows;
    return {&task.sources[i], row};
  }

  const modelfile::ModelFile& file_;
  const Weights weights_;
  std::vector<VectorTask> vectors_;
  std::vector<MatrixTask> matrices_;
  size_t bytes_ = 0;
};

void CollectLayer(CudaLoader& loader, const ModelConfig& c, int index, CudaLayer& layer) {
  const std::string prefix = absl::StrFormat("blk.%d.", index);
  loader.Norm(prefix + "attn_norm.weight", layer.attention_norm);
  loader.Norm(prefix + "ffn_norm.weight", layer.ffn_norm);
  if (c.query_key_norm) {
    loader.Norm(prefix + "attn_q_norm.weight", layer.query_norm);
    loader.Norm(prefix + "attn_k_norm.weight", layer.key_norm);
  }
  if (c.post_norms) {
    loader.Norm(prefix + "post_attention_norm.weight", layer.attention_post_norm);
    loader.Norm(prefix + "post_ffw_norm.weight", layer.ffn_post_norm);
  }
  loader.Rows({prefix + "attn_q.weight", prefix + "attn_k.weight", prefix + "attn_v.weight"}, layer.qkv);
  loader.Rows({prefix + "attn_output.weight"}, layer.output);
  loader.Rows({prefix + "ffn_gate.weight", prefix + "ffn_up.weight"}, layer.gate_up);
  loader.Rows({prefix + "ffn_down.weight"}, layer.down);
}

}  // namespace

absl::StatusOr<CudaWeights> LoadCudaWeights(const modelfile::ModelFile& file, Weights weights, LoadProgress* progress,
                                            const Device& device, kernels::ThreadPool& pool) {
  BATON_RETURN_IF_ERROR(CheckTransformerWeights(file));
  BATON_RETURN_IF_ERROR(CheckFp8Elements(file, pool));
  CudaWeights loaded;
  loaded.config = file.config();
  BATON_RETURN_IF_ERROR(CheckShape(loaded.config));
  CudaLoader loader(file, weights);
  loaded.layers.resize(static_cast<size_t>(loaded.config.layers));
  loader.Norm("output_norm.weight", loaded.output_norm);
  loader.Rows({"token_embd.weight"}, loaded.embedding);
  for (int i = 0; i < loaded.config.layers; ++i) {
    CollectLayer(loader, loaded.config, i, loaded.layers[static_cast<size_t>(i)]);
  }
  const bool ties = file.Find("output.weight") == nullptr;
  if (!ties) loader.Rows({"output.weight"}, loaded.head);
  BATON_ASSIGN_OR_RETURN(loaded.storage, loader.Upload(device, pool, progress));
  if (ties) loaded.head = loaded.embedding;
  return loaded;
}

}  // namespace baton::engine::cuda
