// What a run of the benchmark measures.
#ifndef BATON_TESTS_CUDA_BENCH_BENCH_SHAPE_H_
#define BATON_TESTS_CUDA_BENCH_BENCH_SHAPE_H_

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/cuda/bench/random_model.h"

namespace baton::engine::cuda {

struct BenchShape {
  std::string_view name;
  RandomShape model;
  std::vector<BenchWeights> weights;
  // Decode: sequences of a step, and the tokens before the one that each computes.
  std::vector<int> batches;
  int context = 0;
  // Prefill: tokens of a prompt, ascending. cuBLASLt is measured at the same numbers of rows.
  std::vector<int> prompts;
  // Of the memory that is read and copied; far more than a cache holds.
  size_t memory_bytes = 0;
  // Of everything that is timed, after one that is not; of a prompt, which takes longest.
  int rounds = 0;
  int prompt_rounds = 0;
};

// "llama-8b" and "smollm2-135m", the shapes of Llama 3 8B and of SmolLM2-135M, and "tiny", for an emulated device.
// `quick` leaves most of it out. Nothing for another name.
std::optional<BenchShape> BenchShapeNamed(std::string_view name, bool quick);

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_BENCH_BENCH_SHAPE_H_
