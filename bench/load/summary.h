// Latencies and throughput of a run, from its records. Names and definitions are those of `vllm bench serve`:
//
//   TTFT   from the start of a request to its first output
//   TPOT   (E2E - TTFT) / (output tokens - 1), for requests with at least two output tokens
//   ITL    from one message with output to the next, over all requests
//   E2EL   from the start of a request to the end of its stream
#ifndef BATON_BENCH_LOAD_SUMMARY_H_
#define BATON_BENCH_LOAD_SUMMARY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "bench/load/request_record.h"

namespace baton::bench {

// All zero when there are no values.
struct Distribution {
  size_t count = 0;
  double mean = 0;
  double median = 0;
  // Standard deviation of the population, not of a sample.
  double std = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

// Interpolates linearly between neighbours, as numpy does by default. `sorted` is ascending and not empty; `percent` is
// in [0, 100].
double Percentile(absl::Span<const double> sorted, double percent);
Distribution Describe(std::vector<double> values);

// A bound of 0 is none.
struct Slo {
  double ttft_ms = 0;
  double tpot_ms = 0;
};

struct LoadSummary {
  int completed = 0;
  int failed = 0;
  // Requests that were in flight when the run was stopped. No other figure but the concurrency includes them.
  int cut = 0;
  // From the first start to the last end.
  double duration_s = 0;
  int64_t total_input_tokens = 0;
  int64_t total_output_tokens = 0;
  double request_throughput = 0;
  // Completed requests per second that met the objective.
  double request_goodput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  int max_concurrent_requests = 0;
  // Share of all requests, failed ones included, that met the objective.
  double slo_attainment = 0;
  // The same for each bound by itself. A request without TPOT meets any bound of it.
  double ttft_attainment = 0;
  double tpot_attainment = 0;
  Distribution ttft_ms;
  Distribution tpot_ms;
  Distribution itl_ms;
  Distribution e2el_ms;
};

// Latencies of the completed requests, in the order of `records`.
struct Latencies {
  std::vector<double> ttft_ms;
  std::vector<double> tpot_ms;
  std::vector<double> itl_ms;
  std::vector<double> e2el_ms;
};

Latencies LatenciesOf(absl::Span<const RequestRecord> records);
LoadSummary Summarize(absl::Span<const RequestRecord> records, const Slo& slo);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_SUMMARY_H_
