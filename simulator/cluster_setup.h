// What the cluster of one run is like: its routers, its workers, the pace of its network and engines, and its model.
#ifndef BATON_SIMULATOR_CLUSTER_SETUP_H_
#define BATON_SIMULATOR_CLUSTER_SETUP_H_

#include <cstdint>
#include <vector>

#include "router/dispatcher.h"
#include "simulator/loop_process.h"
#include "simulator/simulation.h"

namespace baton::simulator {

// What a small worker holds.
inline constexpr int32_t kSmallWorkerTokens = 160;

struct Shape {
  int prefill = 0;
  int decode = 0;
  int mixed = 0;

  bool all_mixed() const { return prefill + decode == 0; }
};

struct ClusterSetup {
  // Options of each router. The simulation says how many there are.
  router::DispatcherOptions router;
  Shape shape;
  bool has_small_workers = false;
  std::vector<WorkerSetup> workers;
};

// Draws it all, and sets the pace, the model and the number of routers of the simulation.
ClusterSetup DrawClusterSetup(Simulation& sim);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_CLUSTER_SETUP_H_
