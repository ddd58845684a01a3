// What a worker tells the router about one attempt at a job. Prefill and decode speak the same words.
#ifndef BATON_COMMON_WORKER_UPDATE_H_
#define BATON_COMMON_WORKER_UPDATE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace baton {

// One output token, wherever it comes from.
struct OutputToken {
  int32_t index = 0;
  int32_t token = 0;
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top;

  friend bool operator==(const OutputToken&, const OutputToken&) = default;
};

enum class Finish : uint8_t { kNone = 0, kStop = 1, kLength = 2 };

// Durations that a worker measured on its own clock.
struct WorkerTimes {
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
  // Decode: reading blocks, digests, and from the last block being ready to the commit.
  int64_t read_ns = 0;
  int64_t digest_ns = 0;
  int64_t transfer_tail_ns = 0;
  int64_t transfer_bytes = 0;
};

struct WorkerUpdate {
  enum class Kind : uint8_t {
    kStarted,      // P: licensed, blocks reserved, computing. D: reserved (with `cached_tokens`)
    kKvCommitted,  // D: the prompt's KV is verified and in place
    kToken,
    kFinished,  // `finish` and `times` are set
  };
  Kind kind = Kind::kStarted;
  int32_t cached_tokens = 0;
  OutputToken token;
  Finish finish = Finish::kNone;
  std::string kv_digest;
  WorkerTimes times;
};

}  // namespace baton

#endif  // BATON_COMMON_WORKER_UPDATE_H_
