// Runs a plan against a client: sends each request when it is due and notes when its output comes.
#ifndef BATON_BENCH_LOAD_LOAD_RUNNER_H_
#define BATON_BENCH_LOAD_LOAD_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "bench/load/load_client.h"
#include "bench/load/request_record.h"
#include "bench/load/workload.h"
#include "common/clock.h"

namespace baton::bench {

// Each request in flight has one thread.
inline constexpr int kMaxConcurrency = 1024;

// The runner writes it; any thread may read it.
struct LoadProgress {
  std::atomic<int> ended{0};
  std::atomic<int> failed{0};
  std::atomic<int64_t> outputs{0};
};

struct LoadRunOptions {
  // Most requests in flight.
  int concurrency = 1;
  uint64_t seed = 0;
  int32_t vocab_size = 0;
  // The index of the first prompt that is drawn, so that warm-up and run have different prompts.
  int first_index = 0;
  // When it is notified, no further request is sent. Whoever notifies it calls the client's CancelAll afterwards, which
  // ends those in flight.
  const absl::Notification* stop = nullptr;
};

// Returns when the last request has ended, with the records in the order of the plan. A request that is due while
// `concurrency` others are in flight waits, and its latencies include the wait. In a closed loop all requests are due
// at once; there the latencies of a request start when it is sent. A run that is stopped leaves out the requests that
// it did not send, and marks those that it cut.
std::vector<RequestRecord> RunLoad(absl::Span<const PlannedRequest> plan, const LoadRunOptions& options,
                                   LoadClient& client, const Clock& clock, LoadProgress& progress);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LOAD_RUNNER_H_
