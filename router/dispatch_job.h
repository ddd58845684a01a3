// One job as the dispatcher keeps it, and the arithmetic of its phases.
#ifndef BATON_ROUTER_DISPATCH_JOB_H_
#define BATON_ROUTER_DISPATCH_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/clock.h"
#include "common/kv_origin.h"
#include "common/worker_job.h"
#include "router/job.h"
#include "router/placement.h"

namespace baton::router {

enum class JobState : uint8_t { kFollowing, kQueued, kPlaced, kStreaming, kPaused, kFinishing };

// Which jobs go first in the line; waiting_line.h has the table.
enum class LineRank : uint8_t { kOverdue, kOnTime, kLate };
inline constexpr size_t kLineRanks = 3;

// When the job came, and moments of its current attempt. A moment that has not come yet is unset.
struct PhaseMarks {
  TimeNs arrived = 0;
  std::optional<TimeNs> placed;
  std::optional<TimeNs> admitted;
  std::optional<TimeNs> first_token;
  std::optional<TimeNs> committed;

  // At `now` a worker reports that it computed for the last `compute_ns`: the prompt from `admitted` on, or the output
  // from `committed` on. That moment came no later, however long the worker's word of it waited for the router's loop,
  // which wakes beside threads that compute.
  void NoteComputed(bool prompt, int64_t compute_ns, TimeNs now);
};

// The phases are contiguous from `arrived` to `end`, even if marks are unset or out of order: the phase in which the
// job ended takes the rest.
PhaseTimes ComputePhases(const PhaseMarks& marks, TimeNs end);

// How far a job has moved from a decode worker that drains to another one.
enum class JobMove : uint8_t {
  kNone,
  kAsked,    // the worker was asked to hand it over, and goes on until then
  kPulling,  // the current attempt pulls the KV of the attempt before, which is frozen
};

// A worker that had no room for the job. The worker may be asked again at `retry_at`, or once its room epoch has moved
// on.
struct Refusal {
  WorkerId worker;
  uint64_t room_epoch = 0;
  TimeNs retry_at = 0;
};

struct DispatchJob {
  // As the next or current attempt needs it: with the outputs that earlier attempts gave.
  std::shared_ptr<const JobSpec> spec;
  // Number in the order of submission. A job that comes back takes its old place.
  uint64_t place_in_line = 0;
  LineRank line_rank = LineRank::kOnTime;
  // In the line behind the jobs of tenants that have got less.
  bool yields = false;
  // Since when it waits this time, and what it is then expected to cost.
  TimeNs waits_since = 0;
  int64_t waiting_cost = 0;
  // What its tenant was charged when the job was placed for the first time (tenant_shares.h).
  std::optional<int64_t> charged_cost;
  // What it took out of its tenant's bucket (tenant_buckets.h).
  int64_t taken_tokens = 0;
  JobState state = JobState::kQueued;
  PhaseMarks marks;
  // When OnTimer looks at the job: its deadline, or earlier while it waits for the cause behind `echo` or for reports.
  TimeNs timer = kNever;

  int32_t passed_over = 0;
  int32_t refusals = 0;
  std::vector<Refusal> refused_by;

  // The current attempt: 1 is the first. No number is given twice, also not that of an attempt that never began.
  uint32_t attempt = 0;
  uint32_t last_attempt = 0;
  AttemptKind kind = AttemptKind::kPair;
  Pair pair;
  // The workers of the choice that this one has followed; zero: it has followed none.
  Pair beside;
  // Tokens that the prompt's worker had to compute when it got this prompt, including the prompt itself.
  int64_t tokens_to_first = 0;
  // The prompt is being computed, or was.
  bool prompt_started = false;
  // Tokens of the prompt that were not in its worker's cache. Set with prompt_started.
  int64_t computed_tokens = 0;
  // D has the prompt's KV, so the loss of P does no harm.
  bool committed = false;
  // D's output from which its next outputs are timed (ClusterHealth), and when it came; -1: none yet.
  int32_t timed_output = -1;
  TimeNs timed_at = 0;
  JobMove move = JobMove::kNone;
  // What a job in kAsked was asked for: the attempt that is to go on, and its secret.
  HandOver hand_over;
  // In kPulling: the attempt that is frozen.
  JobKey source;
  // The workers that the KV of the current attempt came through before it was at D, in order.
  std::vector<KvOrigin> origins;
  // An error that may only echo the other side's failure, kept until that one is known.
  std::optional<absl::Status> echo;
  // The worker that said so.
  WorkerId echo_from;

  // Output so far, at most max_tokens: what the next attempt goes on from.
  std::vector<int32_t> outputs;
  // The first output of the current attempt, which both of its workers send.
  OutputToken first;
  // Log-probabilities of the prompt that the current attempt has given (dispatcher_prompts.cc). They go with output 0.
  std::vector<PromptLogprob> prompt;
  // Outputs of D that came before all of these, in order.
  std::vector<OutputToken> held_back;
  // The workers that gave the last output have this fingerprint; it is empty without any, unless a former router's
  // clients have seen some. Only workers of the same one go on with exactly the same tokens.
  std::string fingerprint;
  // The current attempt was placed then.
  TimeNs attempt_placed = 0;
  // When the last attempt failed, and of what.
  TimeNs failed_at = 0;
  absl::Status failure;
  // Attempts that failed since one got beyond its first output: whose worker was lost while it computed for the job,
  // and others.
  int32_t losses = 0;
  int32_t errors = 0;
  // Workers that died of a fault of their own in a step with this job.
  int32_t faults = 0;
  // The side that sent the last token and still owes its report. Set in kFinishing, but not after a stop string.
  std::optional<Side> last_token_from;
  JobResult result;

  int32_t next_index() const { return static_cast<int32_t>(outputs.size()); }
  // The digest of its prompt is asked for and has not come.
  bool lacks_digest() const { return spec->want_kv_digest && result.kv_digest.empty(); }
  // The current attempt has given an output.
  bool has_token() const { return next_index() > spec->emitted; }
  JobKey key() const { return {.job = spec->id, .attempt = attempt, .choice = spec->choice}; }
  // The current attempt comes to nothing.
  void NoteGivenUp(TimeNs now, absl::string_view why);
  const WorkerId& prompt_worker() const { return kind == AttemptKind::kLocal ? pair.decode : pair.prefill; }
  Side prompt_side() const { return kind == AttemptKind::kLocal ? Side::kDecode : Side::kPrefill; }
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DISPATCH_JOB_H_
