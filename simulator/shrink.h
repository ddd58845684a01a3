// Makes a failing long run smaller, so that a person can follow its trace.
#ifndef BATON_SIMULATOR_SHRINK_H_
#define BATON_SIMULATOR_SHRINK_H_

#include "absl/functional/function_ref.h"
#include "simulator/cluster.h"

namespace baton::simulator {

// More runs than this are not tried for one failure.
inline constexpr int kMaxShrinkingRuns = 400;

// Leaves out requests and faults, half of them, a quarter, and so on to single ones, as long as `fails` is true of what
// is left. A run from which something is missing may take another course and go well: each is tried with a few jitters.
// `result` is that of `failing`.
RunOptions Shrink(const RunOptions& failing, const RunResult& result, absl::FunctionRef<bool(const RunOptions&)> fails);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_SHRINK_H_
