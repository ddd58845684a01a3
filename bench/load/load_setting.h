// How a load was made and against what, in the words of the report and of the plot.
#ifndef BATON_BENCH_LOAD_LOAD_SETTING_H_
#define BATON_BENCH_LOAD_LOAD_SETTING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "bench/load/summary.h"
#include "bench/load/workload.h"

namespace baton::bench {

// The workers that serve the model.
struct ClusterShape {
  int prefill = 0;
  int decode = 0;
  int mixed = 0;
};

struct LoadSetting {
  std::string backend;
  std::string target;
  std::string model;
  // None where the server does not say.
  std::optional<ClusterShape> cluster;
  // When the run began.
  absl::Time date;
  // How many requests were planned.
  int num_prompts = 0;
  LengthRange prompt_tokens;
  LengthRange output_tokens;
  // The kind of what each output must match, such as "json_schema", or empty.
  std::string grammar;
  int max_concurrency = 0;
  // 0: closed loop, or a trace.
  double request_rate = 0;
  // The name of a trace's file, or empty.
  std::string trace;
  int warmup = 0;
  int64_t timeout_ms = 0;
  uint64_t seed = 0;
  Slo slo;
  // Whether a signal ended the run before the plan was done.
  bool is_interrupted = false;
  // CPU time that the generator itself took, in cores.
  double generator_cores = 0;
};

// "closed loop, 4 in flight, 64 to 256 tokens in, 16 to 64 out, seed 1".
std::string DescribeLoad(const LoadSetting& setting);
// "1 prefill and 1 decode worker at 127.0.0.1:50051".
std::string DescribeServer(const LoadSetting& setting);
// "2026-11-23 23:58 UTC".
std::string DescribeDate(const LoadSetting& setting);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LOAD_SETTING_H_
