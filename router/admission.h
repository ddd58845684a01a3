// Whether a request can still have its first token before its deadline. One that cannot is refused, or leaves the line,
// before it takes room from those that can.
//
//   a request with a deadline                             | is
//   ------------------------------------------------------+-----------------------------------------------------------
//   comes while workers could begin with it at once, or   | accepted, however little time it has
//   while nobody waits                                    |
//   comes while the pace of the line is not known yet     | accepted
//   comes, and twice the line before it, its own prompt   | refused, and told when the line will have become as much
//   and the outputs that it must have take longer than    | shorter as it needs
//   its time                                              |
//   waits, and has less time left than prompts like its   | dropped, likewise, unless it has outputs already
//   own and the outputs that it must have took lately at  |
//   the very least                                        |
//
// A request is refused by what might be, because nothing is lost when it comes back, and dropped by what is certain.
// The line counts twice because others can halve its pace after a request was taken: a tenant that comes and has its
// share of the workers, or a process that has its share of their machine. It costs no goodput, as a line of half the
// length keeps the workers as busy. A request without a deadline is never judged.
#ifndef BATON_ROUTER_ADMISSION_H_
#define BATON_ROUTER_ADMISSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/clock.h"
#include "router/job.h"
#include "router/least_times.h"

namespace baton::router {

// What lies before a new job.
struct Forecast {
  // How long it takes until the jobs that wait are placed; 0: unknown.
  int64_t line_ns = 0;
  // From its own placement to its first token.
  int64_t prompt_ns = 0;
};

// Used by one thread.
class Admission {
 public:
  void OnFirstToken(int64_t prompt_tokens, int64_t elapsed_ns) { prompts_.Add(prompt_tokens, elapsed_ns); }
  // A job has ended well, `elapsed_ns` after its first token.
  void OnOutputs(int32_t output_tokens, int64_t elapsed_ns);

  // By how much the line is too long for a job that must have at least so many outputs, and is at its beginning where
  // the job lacks time without any line; 0: it is not, or nobody can say.
  int64_t ExcessNs(const Forecast& forecast, int64_t left_ns, int32_t least_outputs) const;
  // The last moment at which a job that waits may be placed.
  TimeNs LastStart(const JobSpec& spec) const;

 private:
  LeastTimes prompts_;
  // These are the least times between two outputs, whose size is 1.
  LeastTimes outputs_;
  // Moving average of the time between two outputs; 0: none has been seen.
  double ns_per_output_ = 0;
};

// RESOURCE_EXHAUSTED with RefusalReason::kDeadline and the time to come back.
absl::Status RefusedForDeadline(const Forecast& forecast, int64_t left_ns, int64_t retry_after_ms);
absl::Status DroppedForDeadline(int64_t left_ns, int64_t retry_after_ms);

}  // namespace baton::router

#endif  // BATON_ROUTER_ADMISSION_H_
