// Runs a plan against a client: sends each request when it is due and notes when its output comes.
#ifndef BATON_BENCH_LOAD_LOAD_RUNNER_H_
#define BATON_BENCH_LOAD_LOAD_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "bench/load/load_client.h"
#include "bench/load/request_record.h"
#include "bench/load/workload.h"
#include "common/clock.h"

namespace baton::bench {

// One thread each.
inline constexpr int kMaxConcurrency = 1024;

// Written by the runner, read by whoever shows it.
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
  // Prompts are drawn for indices from here on: warm-up and run have different ones.
  int first_index = 0;
};

// Returns the records in the order of the plan when the last request has ended. A request that is due when all
// `concurrency` are in flight waits, and its latencies include that wait; in a closed loop, where everything is due at
// once, they start when it is sent.
std::vector<RequestRecord> RunLoad(absl::Span<const PlannedRequest> plan, const LoadRunOptions& options,
                                   LoadClient& client, const Clock& clock, LoadProgress& progress);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LOAD_RUNNER_H_
