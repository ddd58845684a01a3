// A model of any size with random weights, as a file that takes the memory of its largest matrix: all matrices begin
// with the same bytes. On a device, where each has memory of its own, that shows in no time.
#ifndef BATON_TESTS_CUDA_BENCH_RANDOM_MODEL_H_
#define BATON_TESTS_CUDA_BENCH_RANDOM_MODEL_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "modelfile/model_file.h"

namespace baton::engine::cuda {

// Of a model of Llama's kind. The head is a matrix of its own.
struct RandomShape {
  int hidden = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  int vocab = 0;
  int context = 0;
};

// The types in the file: BF16, Q8_0, or Q4_1 with embedding and head in Q8_0.
enum class BenchWeights : uint8_t { kBf16, kInt8, kInt4 };

std::string_view BenchWeightsName(BenchWeights weights);

// Weights have magnitudes between 1/128 and 1/16, so that activations stay finite; norms are 1.
std::unique_ptr<modelfile::ModelFile> MakeRandomModel(const RandomShape& shape, BenchWeights weights);

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_BENCH_RANDOM_MODEL_H_
