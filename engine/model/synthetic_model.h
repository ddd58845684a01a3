// A small model made from a seed. The fingerprint's probe runs it at start; tests run variations of it.
#ifndef BATON_ENGINE_MODEL_SYNTHETIC_MODEL_H_
#define BATON_ENGINE_MODEL_SYNTHETIC_MODEL_H_

#include <memory>

#include "modelfile/model_file.h"

namespace baton::engine {

struct SyntheticSpec {
  uint64_t seed = 1;
  int layers = 2;
  int hidden_size = 64;
  int heads = 2;
  int kv_heads = 1;
  int head_dim = 32;
  int ffn_size = 96;
  int vocab_size = 72;
  int context_length = 1024;
  bool rope_interleaved = true;
  float rope_scaling_factor = 1.0f;
  // 0: no layer slides.
  int sliding_window = 0;
  // The last of every full_every layers does not slide.
  int full_every = 2;
  // The features that set Gemma apart: norms of q and k, norms after attention and feed-forward, GeGLU, a scaled
  // embedding, norm weights stored less 1.
  bool gemma = false;
  modelfile::TensorType attention = modelfile::TensorType::kQ4_1;
  modelfile::TensorType ffn = modelfile::TensorType::kQ4_0;
  modelfile::TensorType embedding = modelfile::TensorType::kQ8_0;
  // Whether matrices of FP8 have a scale for each block of 128 by 128. Otherwise each row has one.
  bool fp8_blocks = false;
};

std::unique_ptr<modelfile::ModelFile> MakeSyntheticModel(const SyntheticSpec& spec);

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_SYNTHETIC_MODEL_H_
