#include "router/dispatch_job.h"

#include <algorithm>
#include <string>

namespace baton::router {

PhaseTimes ComputePhases(const PhaseMarks& marks, TimeNs end) {
  // A mark that is missing although a later one came is as late as that one.
  const TimeNs committed = marks.committed.value_or(end);
  const TimeNs first = std::min(marks.first_token.value_or(end), end);
  const TimeNs admitted = std::min(marks.admitted.value_or(first), first);
  const TimeNs placed = std::min(marks.placed.value_or(end), admitted);
  PhaseTimes phases;
  phases.queue_ns = placed - marks.arrived;
  phases.admission_ns = admitted - placed;
  phases.prefill_ns = first - admitted;
  phases.transfer_ns = std::clamp(committed, first, end) - first;
  phases.decode_ns = end - first - phases.transfer_ns;
  return phases;
}

void DispatchJob::NoteGivenUp(TimeNs now, absl::string_view why) {
  if (result.given_up.size() >= kMaxKeptAttempts) return;
  result.given_up.push_back({.began_ns = *marks.placed - marks.arrived,
                             .ended_ns = now - marks.arrived,
                             .prefill_worker = result.prefill_worker,
                             .decode_worker = result.decode_worker,
                             .why = std::string(why)});
}

}  // namespace baton::router
