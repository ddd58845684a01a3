// One simulated run: a router, workers, clients, and what befalls them. The seed alone decides what happens.
#ifndef BATON_SIMULATOR_CLUSTER_H_
#define BATON_SIMULATOR_CLUSTER_H_

#include <cstdint>
#include <string>

#include "simulator/simulation.h"

namespace baton::simulator {

struct RunOptions {
  uint64_t seed = 0;
  // Prints what happens to stdout.
  bool traces = false;
};

struct RunResult {
  // Empty when all went as it must.
  std::string error;
  Counts counts;
  // The longest wait and the most attempts among the requests that no fault touched.
  int64_t longest_wait_ns = 0;
  int32_t most_attempts = 0;
};

RunResult RunSeed(const RunOptions& options);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_CLUSTER_H_
