// One simulated run: a router, two prefill and two decode workers, clients and one crash. The seed alone decides what
// happens.
#ifndef BATON_SIMULATOR_CLUSTER_H_
#define BATON_SIMULATOR_CLUSTER_H_

#include <cstdint>
#include <string>

#include "simulator/simulation.h"

namespace baton::simulator {

struct RunOptions {
  uint64_t seed = 0;
  PlantedBug bug = PlantedBug::kNone;
  // Prints what happens to stdout.
  bool traces = false;
};

struct RunResult {
  // Empty when all went as it must.
  std::string error;
  Counts counts;
};

RunResult RunSeed(const RunOptions& options);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_CLUSTER_H_
