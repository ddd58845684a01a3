// The layers of a transformer as launches of kernels on a stream, with the scratch that they need. Nothing here waits
// for the device.
#ifndef BATON_ENGINE_CUDA_FORWARD_H_
#define BATON_ENGINE_CUDA_FORWARD_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/kv_layout.h"
#include "engine/cuda/cuda_weights.h"
#include "engine/cuda/device.h"
#include "engine/cuda/kernel_set.h"
#include "engine/cuda/step_data.h"

namespace baton::engine::cuda {

// How attention is computed. Both ways give the same bits.
enum class AttentionPath : uint8_t {
  // By splits where that is needed to fill the device.
  kAuto,
  kWhole,
  // Wherever the scratch suffices.
  kSplit,
};

// What a step's launches depend on, besides the model.
struct ForwardShape {
  int rows = 0;
  StepTiles tiles = {};
  // At least that of every tile: as far as its last row's.
  int splits = 1;
  int outputs = 0;
};

// A moment in the work of a step.
struct LayerMark {
  // The KV of the model's first `layers` layers is in place then.
  int32_t layers = 0;
  Event passed;
};

class Forward {
 public:
  // Logits of at most this many rows are computed at a time.
  static constexpr int kMostHeadRows = 256;

  // The device outlives it.
  static absl::StatusOr<std::unique_ptr<Forward>> Create(const Device& device, CudaWeights weights,
                                                         const KvLayout& layout, int max_rows, AttentionPath path);

  const modelfile::ModelConfig& config() const { return weights_.config; }
  // Rows of the head's matrix, the padding of the vocabulary among them.
  int logits_stride() const { return weights_.head.n; }
  int head_rows() const { return head_rows_; }
  // Whether Head also chooses tokens.
  bool chooses() const { return weights_.head.n == config().vocab_size; }

  // The first byte of block 0.
  void SetPool(uint8_t* base) { pool_ = base; }

  // All layers, and the norm of the output rows. Rows may have tokens that the last call of Head has chosen. Records
  // the events of `marks`, which are in the order of their layers.
  void Layers(const ForwardShape& shape, const StepData& data, const Stream& stream,
              absl::Span<const LayerMark> marks = {}) const;
  // Logits of the outputs [first, first + count), `count` at most head_rows(), and their tokens: as `rows` draw them,
  // an address of the device for the first output, or those of the largest logits where it is null.
  void Head(int first, int count, const SampleRow* rows, const Stream& stream) const;
  void ZeroRows(BlockId block, int first_row, const Stream& stream) const;

  // Addresses of the device, valid until the next call.
  CUdeviceptr logits() const { return logits_.address(); }         // f32 [count][logits_stride()]
  CUdeviceptr tokens() const { return tokens_.address(); }         // int32 [count]
  CUdeviceptr hidden_states() const { return hidden_.address(); }  // f32 [outputs][hidden]

 private:
  Forward(CudaWeights weights, const KvLayout& layout, AttentionPath path);
  absl::Status Allocate(const Device& device, int max_rows);

  // Records `stored` when the layer's KV is in place, unless it is null.
  void Layer(int index, const ForwardShape& shape, const StepData& data, const Stream& stream,
             const Event* stored) const;
  void StoreQkv(int index, const ForwardShape& shape, const StepData& data, const Stream& stream) const;
  void Attend(int index, const ForwardShape& shape, const StepData& data, const Stream& stream) const;
  bool Splits(const ForwardShape& shape, int splits) const;
  size_t PartialBytes(int rows, int splits) const;
  // out = acts * matrix, rows `stride` floats apart.
  void Product(const Matrix& matrix, const Bf16* acts, int rows, float* out, const Stream& stream) const;
  // Adds the branch, if there is one, and norms into `out` unless it is null.
  void AddNorm(int rows, const float* branch, const float* post_weight, const float* weight, Bf16* out,
               const Stream& stream) const;
  uint8_t* LayerPart(int layer) const;

  const CudaWeights weights_;
  const KvLayout layout_;
  const std::vector<KvLayout::Place> places_;  // [layers]
  const AttentionPath path_;
  KernelSet kernels_;
  int head_rows_ = 0;
  int multiprocessors_ = 0;
  uint8_t* pool_ = nullptr;

  DeviceBuffer residual_;   // f32 [rows][hidden]
  DeviceBuffer norm_;       // bf16 [rows][hidden]
  DeviceBuffer branch_;     // f32 [rows][hidden]
  DeviceBuffer qkv_;        // f32 [rows][(heads + 2 * kv_heads) * head_dim]
  DeviceBuffer query_;      // bf16 [rows][heads * head_dim]
  DeviceBuffer attended_;   // bf16 [rows][heads * head_dim]
  DeviceBuffer gate_up_;    // f32 [rows][2 * ffn]
  DeviceBuffer activated_;  // bf16 [rows][ffn]
  DeviceBuffer hidden_;     // f32 [rows][hidden]
  DeviceBuffer partial_;    // AttentionParams::partial
  DeviceBuffer logits_;     // f32 [head_rows][logits_stride]
  DeviceBuffer tokens_;     // int32 [head_rows]
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_FORWARD_H_
