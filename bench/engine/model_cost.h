// How much a step of a model has to read and to multiply, and how fast the machine's limits let it be.
#ifndef BATON_BENCH_ENGINE_MODEL_COST_H_
#define BATON_BENCH_ENGINE_MODEL_COST_H_

#include <cstdint>
#include <string>

#include "bench/machine/machine_limits.h"
#include "engine/cpu_model.h"
#include "modelfile/model_file.h"

namespace baton::bench {

// Counts of all layers' matrices, and of the head by itself: prefill needs the head for the last row only.
struct ModelCost {
  int64_t layer_bytes = 0;
  int64_t layer_macs = 0;
  int64_t head_bytes = 0;
  int64_t head_macs = 0;
  // Whether matrices are multiplied as int8. Attention is always in floating point.
  bool is_int8 = true;
  // KV bytes of one token in all layers.
  int64_t kv_token_bytes = 0;
  // Multiply-adds of one row over one token of context in all layers: scores and values.
  int64_t attention_macs = 0;
  // How many of `layers` are sliding, so that their rows see only the last `window` tokens.
  int layers = 1;
  int sliding_layers = 0;
  int window = 0;
};

ModelCost CostOf(const modelfile::ModelFile& file, const engine::CpuModelOptions& options, int64_t kv_token_bytes);

struct Work {
  int64_t bytes = 0;
  int64_t int8_macs = 0;
  int64_t float_macs = 0;
};

struct PrefillShape {
  int prompts = 1;
  int prompt_tokens = 0;
  int chunk_tokens = 0;
};
Work PrefillWork(const ModelCost& cost, const PrefillShape& shape);

struct DecodeShape {
  int streams = 1;
  // Tokens of a stream before the first timed step.
  int context_tokens = 0;
  int steps = 0;
};
Work DecodeWork(const ModelCost& cost, const DecodeShape& shape);

struct LimitTime {
  double seconds = 0;
  // "memory" or "compute", whichever takes longer. Each is counted as if the other were free.
  std::string bound;
};
LimitTime LimitOf(const Work& work, const MachineLimits& limits);

// The rate of the fastest floating-point dot: of bf16 when the machine has the instruction, else of fp32.
double FloatMacsPerSecond(const MachineLimits& limits);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_MODEL_COST_H_
