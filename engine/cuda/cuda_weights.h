// Weights of a decoder-only transformer in the memory of a device, in the formats of kernels/params.h.
#ifndef BATON_ENGINE_CUDA_CUDA_WEIGHTS_H_
#define BATON_ENGINE_CUDA_CUDA_WEIGHTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/cuda/kernels/params.h"
#include "engine/kernels/thread_pool.h"
#include "engine/model_options.h"
#include "modelfile/model_file.h"

namespace baton::engine::cuda {

// Pointers are addresses of the device. Null: the model has none.
struct CudaLayer {
  const float* attention_norm = nullptr;       // [hidden]
  const float* ffn_norm = nullptr;             // [hidden]
  const float* query_norm = nullptr;           // [head_dim]
  const float* key_norm = nullptr;             // [head_dim]
  const float* attention_post_norm = nullptr;  // [hidden]
  const float* ffn_post_norm = nullptr;        // [hidden]
  Matrix qkv{};                                // [(heads + 2 * kv_heads) * head_dim, hidden]: q, then k, then v
  Matrix output{};                             // [hidden, heads * head_dim]
  Matrix gate_up{};                            // [2 * ffn, hidden]: gate, then up
  Matrix down{};                               // [hidden, ffn]
};

struct CudaWeights {
  modelfile::ModelConfig config;
  std::vector<CudaLayer> layers;
  const float* output_norm = nullptr;  // [hidden]
  // Rows from the vocabulary's size on, up to a multiple of 16, are zero.
  Matrix embedding{};  // [vocab, hidden]
  Matrix head{};       // the embedding when the file ties them
  DeviceBuffer storage;
};

// Rows of q, k and v keep the file's order: the kernels know both orders of RoPE. `weights` rounds float matrices as on
// the CPU; null `progress`: nobody watches. The errors are those of LoadCpuModel, UNIMPLEMENTED for a shape that the
// kernels do not have, and RESOURCE_EXHAUSTED.
absl::StatusOr<CudaWeights> LoadCudaWeights(const modelfile::ModelFile& file, Weights weights, LoadProgress* progress,
                                            const Device& device, kernels::ThreadPool& pool);

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_CUDA_WEIGHTS_H_
