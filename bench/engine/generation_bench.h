// Measures prefill and decode in the engine with its scheduling and greedy sampling, as a worker runs it, but without
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

// The most tokens that a stream of BenchDecode may reach: the first streams decode while the last are prefilled.
int DecodeTokens(const DecodeShape& shape);

struct GenerationOptions {
  int rounds = 3;
  uint64_t seed = 1;
};

// Prompt tokens of `shape` per second, from submission to the first output of the last prompt. An extra round that does
// not count goes first, to warm up.
Figure BenchPrefill(engine::ModelRunner& runner, const PrefillShape& shape, const GenerationOptions& options);

// Tokens per second of all streams together. The time starts after the step that gave the last stream its first output.
Figure BenchDecode(engine::ModelRunner& runner, const DecodeShape& shape, const GenerationOptions& options);

struct MemoryUse {
  int64_t kv_pool_bytes = 0;
  // Resident bytes of the process without the pages of mapped files.
  int64_t resident_bytes = 0;
};

// Measured at the end of one round of BenchDecode. Its pool is just as large as `shape` needs and all in memory.
MemoryUse MeasureMemory(engine::ModelRunner& runner, const DecodeShape& shape, uint64_t seed);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_GENERATION_BENCH_H_
