// What a step of the engine costs besides the model: planning, block tables, events, sampling.
#ifndef BATON_BENCH_ENGINE_SCHEDULING_BENCH_H_
#define BATON_BENCH_ENGINE_SCHEDULING_BENCH_H_

#include <vector>

#include "bench/engine/figure.h"

namespace baton::bench {

struct SchedulingOptions {
  // Running sequences, with one decode row each.
  int sequences = 64;
  int steps = 400;
  // The vocabulary of the second figure. Greedy sampling reads the logits of all of it.
  int vocab_size = 49152;
};

// Microseconds per step outside Forward. The first figure has a vocabulary of 64, which leaves scheduling alone; the
// second has one of `vocab_size`.
std::vector<Figure> BenchScheduling(const SchedulingOptions& options);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_SCHEDULING_BENCH_H_
