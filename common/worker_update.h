// What a worker tells the router about one attempt at a job. Prefill and decode workers use the same messages.
#ifndef BATON_COMMON_WORKER_UPDATE_H_
#define BATON_COMMON_WORKER_UPDATE_H_

#include <cstdint>
#include <string>

#include "common/output_token.h"

namespace baton {

// Durations that a worker measured on its own clock.
struct WorkerTimes {
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
  // Decode only: reading blocks, digesting them, and the time from the last block's readiness to the commit.
  int64_t read_ns = 0;
  int64_t digest_ns = 0;
  int64_t transfer_tail_ns = 0;
  int64_t transfer_bytes = 0;
};

struct WorkerUpdate {
  enum class Kind : uint8_t {
    kStarted,      // P: licensed, blocks reserved, computing. D: reserved (with `cached_tokens`)
    kKvCommitted,  // D: the prompt's KV is verified and in place
    kToken,        // the last one carries its finish
    kFinished,     // the worker's report: `times`, and `kv_digest` when asked for
  };
  Kind kind = Kind::kStarted;
  int32_t cached_tokens = 0;
  OutputToken token;
  std::string kv_digest;
  WorkerTimes times;
};

}  // namespace baton

#endif  // BATON_COMMON_WORKER_UPDATE_H_
