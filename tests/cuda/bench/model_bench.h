// A model of random weights on a device, and how fast the engine runs it.
#ifndef BATON_TESTS_CUDA_BENCH_MODEL_BENCH_H_
#define BATON_TESTS_CUDA_BENCH_MODEL_BENCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine/figure.h"
#include "common/kv_pool.h"
#include "engine/cuda/cuda_runner.h"
#include "engine/cuda/device.h"
#include "tests/cuda/bench/bench_shape.h"

namespace baton::engine::cuda {

// What a step has to read and to multiply. Embeddings, norms and activations are left out: they are little.
struct ModelWork {
  // Bytes of all matrices of the layers and of the head, scales among them, as they lie on the device.
  int64_t weight_bytes = 0;
  // Multiply-adds of one row.
  int64_t layer_macs = 0;
  int64_t head_macs = 0;
  // Bytes of the KV of one token in all layers, and the multiply-adds of one row over one token.
  int64_t kv_token_bytes = 0;
  int64_t attention_macs = 0;
};

ModelWork WorkOf(const modelfile::ModelFile& file);
// Of one step with a row for each of `batch` sequences, behind `context` tokens.
int64_t DecodeBytes(const ModelWork& work, int batch, int context);
// Of a prompt with logits for its last row.
double PrefillFlops(const ModelWork& work, int tokens);

class ModelBench {
 public:
  // RESOURCE_EXHAUSTED. A pool too large for the device's memory becomes one for a smaller batch.
  static absl::StatusOr<ModelBench> Load(const BenchShape& shape, BenchWeights weights,
                                         std::shared_ptr<const Device> device);

  // GB/s of weights and KV, beside `limit`: whole steps of the runner, with upload, graph and choice of the tokens.
  // RESOURCE_EXHAUSTED when the pool has too few blocks.
  absl::StatusOr<bench::Figure> Decode(int batch, double limit);
  // TFLOP/s of a prompt that is one step, beside `limit`; 0: there is none.
  absl::StatusOr<bench::Figure> Prefill(int tokens, double limit);
  // GB/s of the digests of a longest prompt's blocks, beside `limit`: as hand-offs take them, one after the other.
  bench::Figure Digest(double limit) const;

 private:
  ModelBench(const BenchShape& shape, BenchWeights weights) : shape_(shape), weights_(weights) {}
  absl::Status MakePool();
  int32_t BlocksOf(int batch) const;
  absl::Status CheckBlocks(int32_t wanted) const;
  // Seconds of steps over `sequences` with `rows` rows each, the first of them at `position`.
  std::vector<double> Run(int sequences, int rows, int position, int rounds);
  bench::Figure NewFigure(const char* part, const std::string& name) const;

  BenchShape shape_;
  BenchWeights weights_;
  ModelWork work_;
  std::unique_ptr<CudaRunner> runner_;
  std::unique_ptr<KvPool> pool_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_TESTS_CUDA_BENCH_MODEL_BENCH_H_
