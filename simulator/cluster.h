// One simulated run: routers, workers, clients, and what befalls them. The seed alone decides what happens.
#ifndef BATON_SIMULATOR_CLUSTER_H_
#define BATON_SIMULATOR_CLUSTER_H_

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "simulator/fault_plan.h"
#include "simulator/simulation.h"

namespace baton::simulator {

enum class RunKind : uint8_t {
  // Some requests at once, a few faults within a second or some, and the end of it all.
  kShort,
  // Requests and faults of all kinds (fault_plan.h) over 10 to 60 s.
  kLong,
  // Likewise over 1,000 s.
  kThousandSeconds,
};

struct RunOptions {
  uint64_t seed = 0;
  RunKind kind = RunKind::kShort;
  // Prints what happens to stdout.
  bool traces = false;
  // For a long run, the numbers of the faults and of the requests that are left out; what draws each duration of the
  // network and of steps begins anew with another `jitter`.
  std::set<int> left_out_faults = {};
  std::set<int> left_out_requests = {};
  uint64_t jitter = 0;
  // How many routers there are; 0: as the seed draws.
  int routers = 0;
  // How many of a hundred requests outlive their calls, if they may; below 0: as the seed draws.
  int kept_percent = -1;
};

struct RunResult {
  // Empty when all went as it must.
  std::string error;
  Counts counts;
  // The longest wait and the most attempts among the requests that no fault touched.
  int64_t longest_wait_ns = 0;
  int32_t most_attempts = 0;
  // The longest time from a request's submission to its end.
  int64_t longest_life_ns = 0;
  // From the last fault's end, or the last thing that a client does, until every request had ended.
  int64_t end_ns = 0;
  int64_t virtual_ns = 0;
  // For a long run, the faults and requests of its plan, and the faults that struck.
  int planned_faults = 0;
  int planned_requests = 0;
  std::array<int64_t, kFaultKinds> struck = {};
};

RunResult RunSeed(const RunOptions& options);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_CLUSTER_H_
