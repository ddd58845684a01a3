// What a router costs and adds while many streams run through it: stub workers on one side, clients on the other.
#ifndef BATON_BENCH_ROUTER_ROUTER_BENCH_H_
#define BATON_BENCH_ROUTER_ROUTER_BENCH_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace baton::bench {

struct RouterBenchOptions {
  // The router under test, without other workers or clients.
  pid_t router_pid = 0;
  std::string target;
  std::string cluster_target;
  std::string model;
  int streams = 1000;
  // A worker steps this many streams at once.
  int streams_per_worker = 16;
  double tokens_per_second = 1;
  int seconds = 10;
};

struct RouterFigures {
  int64_t tokens = 0;
  double cpu_us_per_token = 0;
  double cpu_cores = 0;
  double kib_per_stream = 0;
  // From the stub worker's send to the client's callback.
  double median_ms = 0;
  double p99_ms = 0;
};

absl::StatusOr<RouterFigures> MeasureRouter(const RouterBenchOptions& options);

}  // namespace baton::bench

#endif  // BATON_BENCH_ROUTER_ROUTER_BENCH_H_
