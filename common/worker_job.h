// One attempt at a job as both workers of its pair receive it: all that decides the tokens.
#ifndef BATON_COMMON_WORKER_JOB_H_
#define BATON_COMMON_WORKER_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/sampling_params.h"
#include "common/worker_update.h"

namespace baton {

struct WorkerJob {
  JobKey key;
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  std::string tenant;
  // On this process's clock.
  TimeNs deadline = kNever;
  bool want_kv_digest = false;
};

// Where a worker's loop sends what the router should hear. Called by the loop's thread; must not block.
class UpdateSink {
 public:
  virtual ~UpdateSink() = default;
  virtual void Update(const JobKey& key, const WorkerUpdate& update) = 0;
  // The call is over; nothing follows.
  virtual void End(const JobKey& key, const absl::Status& status) = 0;
};

}  // namespace baton

#endif  // BATON_COMMON_WORKER_JOB_H_
