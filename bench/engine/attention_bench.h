// Measures the attention kernel by itself, on KV in the engine's own layout.
#ifndef BATON_BENCH_ENGINE_ATTENTION_BENCH_H_
#define BATON_BENCH_ENGINE_ATTENTION_BENCH_H_

#include <vector>

#include "bench/engine/figure.h"
#include "bench/machine/machine_limits.h"
#include "common/kv_layout.h"
#include "engine/cpu_model.h"
#include "modelfile/model_config.h"

namespace baton::bench {

struct AttentionOptions {
  engine::Isa isa = engine::Isa::kAuto;
  KvDtype kv_dtype = KvDtype::kBf16;
  int threads = 1;
  int context_tokens = 2048;
  // Streams of the decode figure, with one query row each.
  int streams = 32;
  int rounds = 3;
};

// Two figures of one layer. Decode: KV bytes read per second for all streams, which are more than the caches hold.
// Prefill: multiply-adds per second for one whole prompt.
std::vector<Figure> BenchAttention(const modelfile::ModelConfig& config, const AttentionOptions& options,
                                   const MachineLimits& limits);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_ATTENTION_BENCH_H_
