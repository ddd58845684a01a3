// Weights of a decoder-only transformer, packed for the kernels.
#ifndef BATON_ENGINE_MODEL_TRANSFORMER_WEIGHTS_H_
#define BATON_ENGINE_MODEL_TRANSFORMER_WEIGHTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/kernels/thread_pool.h"
#include "engine/model_options.h"
#include "modelfile/model_file.h"

namespace baton::engine {

struct TransformerLayer {
  std::vector<float> attention_norm;  // [hidden]
  std::vector<float> ffn_norm;        // [hidden]
  // Empty where the model has none.
  std::vector<float> query_norm;           // [head_dim], in the packed order
  std::vector<float> key_norm;             // [head_dim]
  std::vector<float> attention_post_norm;  // [hidden]
  std::vector<float> ffn_post_norm;        // [hidden]
  kernels::PackedMatrix query;             // [heads * head_dim, hidden]
  kernels::PackedMatrix key;               // [kv_heads * head_dim, hidden]
  kernels::PackedMatrix value;             // [kv_heads * head_dim, hidden]
  kernels::PackedMatrix output;            // [hidden, heads * head_dim]
  kernels::PackedMatrix gate;              // [ffn, hidden]
  kernels::PackedMatrix up;                // [ffn, hidden]
  kernels::PackedMatrix down;              // [hidden, ffn]
};

struct TransformerWeights {
  modelfile::ModelConfig config;
  std::vector<TransformerLayer> layers;
  std::vector<float> output_norm;   // [hidden]
  kernels::PackedMatrix embedding;  // [vocab, hidden]
  kernels::PackedMatrix head;       // the embedding when the file ties them
  kernels::AlignedBuffer storage;
};

// The format in which a matrix is packed.
kernels::WeightFormat PackedFormat(const modelfile::TensorView& matrix, Numerics numerics, Weights weights);

// Says what LoadTransformerWeights would refuse, without packing anything.
absl::Status CheckTransformerWeights(const modelfile::ModelFile& file);

// Reads every element of FP8 on the pool's threads. INVALID_ARGUMENT names a tensor that has a NaN.
absl::Status CheckFp8Elements(const modelfile::ModelFile& file, kernels::ThreadPool& pool);

// Packs every matrix on the pool's threads. RoPE partners become neighbours. Only the options numerics, weights and
// progress matter here. The errors are those of LoadCpuModel.
absl::StatusOr<TransformerWeights> LoadTransformerWeights(const modelfile::ModelFile& file,
                                                          const CpuModelOptions& options, kernels::ThreadPool& pool);

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_TRANSFORMER_WEIGHTS_H_
