// A request on its way through the router: what was asked for, and what became of it.
#ifndef BATON_ROUTER_JOB_H_
#define BATON_ROUTER_JOB_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/sampling_params.h"
#include "common/trace_headers.h"
#include "common/worker_update.h"

namespace baton::router {

// Which of the waiting requests goes first (waiting_line.h): the default is the highest priority.
inline constexpr int kMinPriority = -8;
inline constexpr int kMaxPriority = 0;
inline constexpr int kPriorityLevels = kMaxPriority - kMinPriority + 1;

// One choice of what a client asked for, checked and tokenized. Immutable, shared by all parts that work on it.
struct JobSpec {
  JobId id;
  uint32_t choice = 0;
  // Begins once this other choice of the same job, which is here, has the prompt's KV at its decode worker, or has
  // ended: the prompt is then in the prefix caches of the workers to which this choice goes, if they have room.
  std::optional<uint32_t> follows = std::nullopt;
  std::vector<int32_t> prompt;
  // The last `emitted` ids of `prompt` are outputs of attempts that came to nothing, not the client's prompt.
  int32_t emitted = 0;
  SamplingParams sampling;
  std::string tenant;
  // From kMinPriority to kMaxPriority.
  int32_t priority = 0;
  // The output has at least so many tokens, whatever the model says.
  int32_t least_outputs = 1;
  // When the request reached the router, from where its queue phase counts; unset: when it was submitted.
  std::optional<TimeNs> arrived = std::nullopt;
  TimeNs deadline = kNever;
  bool want_kv_digest = false;
  // A former router began the job: it has a place already, and waits as long as the workers may need to come back.
  bool is_recovered = false;
  // The numbers of the attempts that a former router may have made are not given again.
  uint32_t attempts_before = 0;
  // Only workers of this fingerprint take the job, because a client has outputs of such; empty: any workers.
  std::string fingerprint;
  // Where no worker of the fingerprint of its outputs is left, workers of another one with the same weights may go on.
  bool allows_other_numerics = false;
  // How many outputs of the next attempt are computed in steps of their own.
  int32_t alone_outputs = 0;
  // Goes to the workers.
  TraceHeaders trace;

  ChoiceKey key() const { return {id, choice}; }
  // What an attempt computes before its first output.
  int64_t prompt_tokens() const { return static_cast<int64_t>(prompt.size()); }
  // 0 is the highest priority.
  int32_t level() const { return kMaxPriority - priority; }
  int64_t client_prompt_tokens() const { return prompt_tokens() - emitted; }
  // How many log-probabilities come before the first output: of every token of the prompt but the first.
  int64_t prompt_logprobs() const { return sampling.prompt_logprobs < 0 || emitted > 0 ? 0 : prompt_tokens() - 1; }
};

enum class Side : uint8_t { kPrefill, kDecode };

// Contiguous on the router's clock; they add up to the whole.
struct PhaseTimes {
  int64_t queue_ns = 0;
  int64_t admission_ns = 0;
  int64_t prefill_ns = 0;
  int64_t transfer_ns = 0;
  int64_t decode_ns = 0;
};

// An attempt that was given up: what it waited for had no room.
struct GivenUpAttempt {
  // Since the request arrived.
  int64_t began_ns = 0;
  int64_t ended_ns = 0;
  // host:port of the workers; empty: none on this side.
  std::string prefill_worker;
  std::string decode_worker;
  std::string why;
};
// A job keeps the first of them.
inline constexpr size_t kMaxKeptAttempts = 8;

struct JobResult {
  absl::Status status;
  FinishReason finish = FinishReason::kNone;
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  // Prompt tokens that P looked up in its prefix cache, and those of them that were not computed again.
  int32_t looked_up_tokens = 0;
  int32_t cached_tokens = 0;
  // Placements on workers, and those of them for which a worker had no room.
  int32_t attempts = 0;
  int32_t refusals = 0;
  // How often the job went on elsewhere after a worker or a hand-off had failed.
  int32_t failovers = 0;
  // How often it waited for a client that did not read.
  int32_t pauses = 0;
  std::vector<GivenUpAttempt> given_up;
  // The workers of the last attempt, as in GivenUpAttempt.
  std::string prefill_worker;
  std::string decode_worker;
  std::string kv_digest;
  // The fingerprint of the workers that gave the last output; empty without any.
  std::string fingerprint;
  // The first output that is not of the fingerprint of output 0; unset: all are.
  std::optional<int32_t> other_numerics_from;
  PhaseTimes phases;
  WorkerReport prefill;
  WorkerReport decode;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_JOB_H_
