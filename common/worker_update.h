// What a worker tells the router about one attempt at a job. Prefill and decode workers use the same messages.
#ifndef BATON_COMMON_WORKER_UPDATE_H_
#define BATON_COMMON_WORKER_UPDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/output_token.h"
#include "common/prompt_logprob.h"

namespace baton {

// What a worker measured of one attempt, durations on its own clock.
struct WorkerReport {
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
  // Steps of the engine in which the sequence had rows: the chunks of a prompt, the tokens of an output.
  int64_t steps = 0;
  // The sum over these steps of the sequences in the step, and the most in one of them.
  int64_t batch_sequences = 0;
  int64_t max_batch_sequences = 0;
  // How often the sequence gave its blocks up for an older one.
  int64_t preemptions = 0;
  // Decode only: reading blocks, digesting them, and the time from the last block's readiness to the commit.
  int64_t read_ns = 0;
  int64_t digest_ns = 0;
  int64_t transfer_tail_ns = 0;
  int64_t transfer_bytes = 0;
  // How the blocks travelled: "shm", "tcp"; empty when nothing was read.
  std::string transport;

  friend bool operator==(const WorkerReport&, const WorkerReport&) = default;
};

struct WorkerUpdate {
  enum class Kind : uint8_t {
    kStarted,      // P: licensed, blocks reserved, computing. D: reserved (with `cached_tokens`)
    kKvCommitted,  // D: the prompt's KV is verified and in place; the report's part about the hand-off
    kToken,        // the last one carries its finish
    kFrozen,       // D: stopped behind `token`, its last; the KV is served to the next attempt. `kv_digest` as below
    kFinished,     // `report`, and `kv_digest` when asked for
    kPrompt,       // `prompt`, for a job that asks for it: in order, and all of it before the first token
  };
  Kind kind = Kind::kStarted;
  int32_t cached_tokens = 0;
  OutputToken token;
  std::string kv_digest;
  WorkerReport report;
  // `prompt` belongs to the prompt's tokens from the place `first_prompt` on.
  int32_t first_prompt = 0;
  std::vector<PromptLogprob> prompt = {};
};

}  // namespace baton

#endif  // BATON_COMMON_WORKER_UPDATE_H_
