#include "router/dispatch_job.h"

#include <algorithm>

namespace baton::router {

PhaseTimes ComputePhases(const PhaseMarks& marks, TimeNs end) {
  // A mark that is missing although a later one came is as late as that one.
  const TimeNs committed = marks.committed.value_or(end);
  const TimeNs first = std::min(marks.first_token.value_or(end), end);
  const TimeNs admitted = std::min(marks.admitted.value_or(first), first);
  const TimeNs placed = std::min(marks.placed.value_or(end), admitted);
  PhaseTimes phases;
  phases.queue_ns = placed - marks.submitted;
  phases.admission_ns = admitted - placed;
  phases.prefill_ns = first - admitted;
  phases.transfer_ns = std::clamp(committed, first, end) - first;
  phases.decode_ns = end - first - phases.transfer_ns;
  return phases;
}

}  // namespace baton::router
