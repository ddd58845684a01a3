// What the cluster of one run is like: its routers, its workers, the pace of its network and engines, and its model.
#ifndef BATON_SIMULATOR_CLUSTER_SETUP_H_
#define BATON_SIMULATOR_CLUSTER_SETUP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/limits.h"
#include "router/dispatcher.h"
#include "router/live_jobs.h"
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

// Requests that outlive their calls (router/live_jobs.h).
struct KeptSetup {
  // So many of a hundred requests that may be kept are; 0: none, and the routers have no journal.
  int percent = 0;
  router::LiveJobsOptions live;
  // A step of the journal's thread takes as long as this at most, but for some slow ones.
  int64_t max_write_ns = kNsPerMs / 2;
  // A journal with so many new jobs that wait has no room.
  size_t max_new_jobs = kMaxUnwrittenJobs;
};

struct ClusterSetup {
  // Options of each router. The simulation says how many there are.
  router::DispatcherOptions router;
  Shape shape;
  KeptSetup kept;
  bool has_small_workers = false;
  std::vector<WorkerSetup> workers;
};

// Draws it all, and sets the pace, the model and the number of routers of the simulation.
ClusterSetup DrawClusterSetup(Simulation& sim);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_CLUSTER_SETUP_H_
