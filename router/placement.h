// Chooses the pair of workers that serves a job: the prefill worker with the least pending prompt tokens and the decode
// worker with the least reserved blocks, of equal fingerprints. A pure function of its arguments.
//
// There are two measures of load. Heartbeats are late. The dispatcher's own assignments miss the blocks that outputs
// and leases hold. Each may be too low, so the larger one counts. The bound on uncomputed prompt tokens looks at the
// assignments alone, because a late heartbeat must not keep an idle prefill worker idle.
//
// A decode worker has room for a job when it holds no other, or when it keeps its headroom besides the job's blocks. A
// mixed worker states a headroom, which leaves its prompts room in the pool that they share with the outputs.
//
//   a job                         | goes to
//   ------------------------------+----------------------------------------------------------------------------------
//   solo (one output token)       | the prefill or mixed worker with the least pending prompt tokens
//   local (a short prompt)        | the decode or mixed worker with the least reserved blocks, which also prefills it
//   any other, where a dedicated  | that group's dedicated prefill worker with the least pending prompt tokens, and its
//   prefill worker can hold it    | decode or mixed worker with the least reserved blocks
//   any other, without one        | a mixed worker, which also prefills it; or a decode worker and a mixed one
//
// No mixed worker gets its KV from another mixed one. A reservation holds blocks until the KV is there, and two mixed
// workers whose pools are full of reservations for each other's prompts, neither of which then fits, wait for ever. A
// dedicated prefill worker that cannot hand over to a mixed one does not exist for that one.
//
// Where the needs name workers that have the prompt already, these go before those with less to do.
//
// Draining workers get nothing, and workers of a former version no job that they would misread. What health says
// against a worker or a pair (cluster_health.h) goes by what else there is, in three rounds:
//
//   round | hides                                            | its verdict counts
//   ------+--------------------------------------------------+-------------------------------------------------------
//   1     | workers that ramp up, ejected workers, avoided   | when it places the job
//         | pairs                                            |
//   2     | ejected workers and avoided pairs                | when some worker could serve the job, now or later
//   3     | nothing                                          | always: bad workers are better than none
#ifndef BATON_ROUTER_PLACEMENT_H_
#define BATON_ROUTER_PLACEMENT_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "router/worker_registry.h"

namespace baton::router {

// What the dispatcher has given a worker and not got back.
struct WorkerAssignment {
  // Tokens of prompts that it was sent and that have no first token yet.
  int64_t uncomputed_prompt_tokens = 0;
  // Prompt blocks of the jobs that it decodes.
  int64_t reserved_blocks = 0;
  // Open calls, prefill and decode.
  int32_t jobs = 0;
  // How much the three above have changed since its last heartbeat, which cannot show that change.
  int64_t unheard_prompt_tokens = 0;
  int64_t unheard_blocks = 0;
  int32_t unheard_jobs = 0;
  // Heartbeats that came since it has open calls.
  int64_t heartbeats = 0;
};

// An empty assignment for a worker that `assigned` does not hold. The result is valid as long as `assigned`.
const WorkerAssignment& AssignmentOf(const std::map<WorkerId, WorkerAssignment>& assigned, const WorkerId& worker);

struct PlacementOptions {
  // A prefill worker gets at most this many chunk budgets of uncomputed tokens; an idle one always takes one job.
  int32_t max_pending_chunks = 2;
};

// An attempt is of one of these kinds. The kind says who computes what, and so which workers the attempt needs.
enum class AttemptKind : uint8_t {
  kPair,   // P computes the prompt, D the output
  kSolo,   // P computes the only output token
  kLocal,  // D computes both
};
inline constexpr size_t kAttemptKinds = 3;

struct Pair {
  WorkerId prefill;
  // Zero for a solo job. Equal to `prefill` where one worker does both: nothing is copied.
  WorkerId decode;

  friend auto operator<=>(const Pair&, const Pair&) = default;
};

// What gets no job that others could serve, each list in order.
struct Shunned {
  // Workers that have their share of a ramp-up. They get more before a job waits.
  std::vector<WorkerId> ramping;
  // Workers that are much slower than their peers, and pairs whose hand-offs fail: a job rather waits for others.
  std::vector<WorkerId> ejected;
  std::vector<Pair> pairs;

  bool empty() const { return ramping.empty() && ejected.empty() && pairs.empty(); }
};

// Which workers count as idle, whatever they have to do.
enum class CountsAsIdle : uint8_t { kNone, kPrefill, kAll };

struct JobNeeds {
  int64_t prompt_tokens = 0;
  AttemptKind kind = AttemptKind::kPair;
  CountsAsIdle idle = CountsAsIdle::kNone;
  // Only workers of this fingerprint, all of which can go on with outputs of others; empty: any workers.
  std::string_view fingerprint = {};
  // Beside `fingerprint`: workers of other fingerprints as well that have the same weights (fingerprints.h).
  bool other_numerics = false;
  // Only workers that know all of them.
  JobFeatures features = 0;
  // These workers are preferred as long as they have room, because they have the prompt's KV. They never change the
  // verdict.
  Pair beside = {};

  // Jobs of one class lack workers together, whatever their sizes are: those of one kind with the same features.
  static constexpr size_t kClasses = kJobFeatureSets * kAttemptKinds;
  static JobNeeds OfClass(size_t job_class) {
    return {.kind = static_cast<AttemptKind>(job_class % kAttemptKinds),
            .features = static_cast<JobFeatures>(job_class / kAttemptKinds)};
  }
  // Below kClasses.
  size_t job_class() const { return static_cast<size_t>(kind) + features * kAttemptKinds; }
};

// From the best to the worst.
enum class PlacementVerdict : uint8_t {
  kPlaced,
  // Workers exist that could serve it, but not now.
  kBusy,
  // Workers of the needed roles exist, but the prompt is too large for the pool or the context of each. A decode worker
  // needs room for at least one more row.
  kImpossible,
  // No serving workers of the needed roles with equal fingerprints.
  kNoWorkers,
};

struct PlacementResult {
  PlacementVerdict verdict = PlacementVerdict::kNoWorkers;
  Pair pair;
};

// The decode worker with the least to do that can go on with a running job of `needs`, which names the fingerprint.
// Zero when none has room now.
WorkerId PlaceMove(const WorkerRegistry& registry, const std::map<WorkerId, WorkerAssignment>& assigned,
                   const JobNeeds& needs);

// `avoid`: workers that refused the job since their load last changed.
PlacementResult Place(const WorkerRegistry& registry, const std::map<WorkerId, WorkerAssignment>& assigned,
                      const JobNeeds& needs, const PlacementOptions& options, const std::vector<WorkerId>& avoid,
                      const Shunned& shunned = {});

}  // namespace baton::router

#endif  // BATON_ROUTER_PLACEMENT_H_
