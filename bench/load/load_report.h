// The summary of a run, for people and for programs.
#ifndef BATON_BENCH_LOAD_LOAD_REPORT_H_
#define BATON_BENCH_LOAD_LOAD_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "bench/load/request_record.h"
#include "bench/load/summary.h"
#include "nlohmann/json.hpp"

namespace baton::bench {

// How the figures were measured.
struct LoadSetting {
  std::string backend;
  std::string target;
  std::string model;
  int num_prompts = 0;
  int max_concurrency = 0;
  // 0: closed loop.
  double request_rate = 0;
  uint64_t seed = 0;
  Slo slo;
  // CPU time that the generator itself took, in cores.
  double generator_cores = 0;
};

// Uses the keys of `vllm bench serve` and some of our own. `with_records` adds lists with an entry for each request.
nlohmann::ordered_json LoadJson(const LoadSetting& setting, const LoadSummary& summary,
                                absl::Span<const RequestRecord> records, bool with_records);

// A table of some lines.
std::string LoadTable(const LoadSetting& setting, const LoadSummary& summary);

// Distinct error texts with their counts, the most frequent first; at most `limit` lines.
std::string ErrorLines(absl::Span<const RequestRecord> records, int limit);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LOAD_REPORT_H_
