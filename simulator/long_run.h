// What a long run is drawn to be: requests in waves, some of them where a fault strikes, and the plan of the faults.
#ifndef BATON_SIMULATOR_LONG_RUN_H_
#define BATON_SIMULATOR_LONG_RUN_H_

#include <cstdint>
#include <vector>

#include "simulator/cluster_setup.h"
#include "simulator/fault_plan.h"
#include "simulator/workload.h"

namespace baton::simulator {

inline constexpr int64_t kMinLongMs = 10'000;
inline constexpr int64_t kMaxLongMs = 60'000;
inline constexpr int64_t kThousandSecondsNs = 1'000 * kNsPerSecond;

struct LongRunPlan {
  int64_t length_ns = 0;
  MixOptions mix;
  std::vector<Wave> waves;
  std::vector<PlannedFault> faults;
};

// Also slows the engines of some runs, so that requests live long enough for several faults.
LongRunPlan DrawLongRun(Simulation& sim, const ClusterSetup& setup, int64_t length_ns);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_LONG_RUN_H_
