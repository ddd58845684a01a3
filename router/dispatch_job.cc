#include "router/dispatch_job.h"

#include <algorithm>
#include <string>

namespace baton::router {

void PhaseMarks::NoteComputed(bool prompt, int64_t compute_ns, TimeNs now) {
  std::optional<TimeNs>& mark = prompt ? admitted : committed;
  if (!mark.has_value() || !placed.has_value()) return;
  const TimeNs began = now - std::clamp<int64_t>(compute_ns, 0, now - *placed);
  mark = std::min(*mark, began);
}

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
  result.given_up.push_back({.began_ns = attempt_placed - marks.arrived,
                             .ended_ns = now - marks.arrived,
                             .prefill_worker = result.prefill_worker,
                             .decode_worker = result.decode_worker,
                             .why = std::string(why)});
}

}  // namespace baton::router
