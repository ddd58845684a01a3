// What an engine's step costs besides the model: planning, block tables, events, sampling.
#ifndef BATON_BENCH_ENGINE_SCHEDULING_BENCH_H_
#define BATON_BENCH_ENGINE_SCHEDULING_BENCH_H_

#include <vector>

#include "bench/engine/figure.h"

namespace baton::bench {

struct SchedulingOptions {
  // Running, one decode row each.
  int sequences = 64;
  int steps = 400;
  // Of the second figure: greedy sampling goes through all of it.
  int vocab_size = 49152;
};

// Microseconds a step outside Forward: over a vocabulary of 64, which leaves scheduling alone, and over `vocab_size`.
std::vector<Figure> BenchScheduling(const SchedulingOptions& options);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_SCHEDULING_BENCH_H_
