// One attempt at a job, as both workers of its pair receive it. It holds everything that decides the tokens.
#ifndef BATON_COMMON_WORKER_JOB_H_
#define BATON_COMMON_WORKER_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/capability.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/sampling_params.h"
#include "common/trace_headers.h"
#include "common/worker_update.h"

namespace baton {

struct WorkerJob {
  JobKey key;
  // Drawn by the router for this attempt, known to both workers of the pair and to nobody else.
  Id128 secret;
  // Whom the prompt's KV may be served to. Without it, whoever states the secret.
  std::optional<ExpectedReader> reader;
  // What the worker shows to the source of the prompt's KV, a serialized Capability; empty without one.
  std::string capability;
  // The client's prompt, then the outputs that it has already, of earlier attempts: the last `emitted` ids.
  std::vector<int32_t> prompt;
  int32_t emitted = 0;
  SamplingParams sampling;
  std::string tenant;
  // A time on this process's clock.
  TimeNs deadline = kNever;
  bool want_kv_digest = false;
  // How many outputs of this attempt each worker computes in steps of their own: its worker may have died of the job.
  int32_t alone_outputs = 0;
  // What the worker does belongs to this trace.
  TraceHeaders trace;
};

// A running attempt is to be handed over to the next attempt of its choice, at another worker.
struct HandOver {
  // Its attempt is 0 where the hand-over is taken back: the running attempt goes on.
  JobKey next;
  // The next attempt's.
  Id128 secret;
  // As in WorkerJob. Who the next reader is, is not known yet.
  std::optional<ExpectedReader> reader;

  bool is_taken_back() const { return next.attempt == 0; }
};

// A worker's loop sends through this what the router must learn. Only the loop's thread calls it; it must not block.
class UpdateSink {
 public:
  virtual ~UpdateSink() = default;
  virtual void Update(const JobKey& key, const WorkerUpdate& update) = 0;
  // Ends the call; nothing follows.
  virtual void End(const JobKey& key, const absl::Status& status) = 0;
};

}  // namespace baton

#endif  // BATON_COMMON_WORKER_JOB_H_
