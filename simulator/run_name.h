// The name of a run, by which it can be repeated: `short 17`, `long 17`, `thousand 17`, and for one that was shrunk
// `long 17 jitter 2 without-faults 0,2-4 without-requests 0-20,22`.
// `short 17 routers 2` has so many routers, whatever its seed draws.
#ifndef BATON_SIMULATOR_RUN_NAME_H_
#define BATON_SIMULATOR_RUN_NAME_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/cluster.h"

namespace baton::simulator {

std::string NameOfRun(const RunOptions& options);
// INVALID_ARGUMENT when it is no such name.
absl::StatusOr<RunOptions> ParseRunName(std::string_view name);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_RUN_NAME_H_
