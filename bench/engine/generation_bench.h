// Prefill and decode through the engine: with its scheduling and greedy sampling, as a worker runs it, but without
// network and tokenizer.
#ifndef BATON_BENCH_ENGINE_GENERATION_BENCH_H_
#define BATON_BENCH_ENGINE_GENERATION_BENCH_H_

#include <cstdint>
#include <vector>

#include "bench/engine/figure.h"
#include "bench/engine/model_cost.h"
#include "engine/model_runner.h"

namespace baton::bench {

// Chunk budget of BenchDecode's engine.
int DecodeChunkTokens(int streams);

// The longest that a stream of BenchDecode may get: the first may decode while the last are prefilled.
int DecodeTokens(const DecodeShape& shape);

struct GenerationOptions {
  int rounds = 3;
  uint64_t seed = 1;
};

// Tokens of `shape` a second, from submission to the first output of the last prompt. One round more goes first, to
// warm up.
Figure BenchPrefill(engine::ModelRunner& runner, const PrefillShape& shape, const GenerationOptions& options);

// Tokens a second of all streams together, timed from the step after the one that gave the last stream its first
// output.
Figure BenchDecode(engine::ModelRunner& runner, const DecodeShape& shape, const GenerationOptions& options);

struct MemoryUse {
  int64_t kv_pool_bytes = 0;
  // Of the process, without pages of mapped files.
  int64_t resident_bytes = 0;
};

// At the end of one round of BenchDecode, with all of its pool, which is just as large as `shape` needs, in memory.
MemoryUse MeasureMemory(engine::ModelRunner& runner, const DecodeShape& shape, uint64_t seed);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_GENERATION_BENCH_H_
