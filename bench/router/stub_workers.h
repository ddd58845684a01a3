// Workers without an engine, to load a router with more streams than a machine could generate: they join the router's
// cluster port as mixed workers and make the tokens of their calls on a clock.
#ifndef BATON_BENCH_ROUTER_STUB_WORKERS_H_
#define BATON_BENCH_ROUTER_STUB_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "bench/router/token_clock.h"
#include "common/clock.h"

namespace baton::bench {

struct StubWorkerOptions {
  // HOST:PORT on which the router takes workers.
  std::string cluster_target;
  // Name of the model that the router serves.
  std::string model;
  int workers = 1;
  // Calls that one worker takes. All have a token in each of its steps, which travel in one message.
  int streams_per_worker = 16;
  // From one step of a worker to the next. The steps of the workers are spread evenly over this time.
  int64_t step_ns = kNsPerSecond;
};

class StubWorker;

// Owns a thread that runs the steps, from Start to the destructor.
class StubWorkers {
 public:
  // The seed of a request is the number of its stream in `token_clock`, which outlives the workers.
  StubWorkers(const StubWorkerOptions& options, TokenClock& token_clock);
  ~StubWorkers();

  // Returns when all have joined.
  absl::Status Start();

 private:
  void Run();

  const StubWorkerOptions options_;
  std::vector<std::unique_ptr<StubWorker>> workers_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_ROUTER_STUB_WORKERS_H_
