// The summary of a run, for people and for programs.
#ifndef BATON_BENCH_LOAD_LOAD_REPORT_H_
#define BATON_BENCH_LOAD_LOAD_REPORT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "bench/load/load_setting.h"
#include "bench/load/request_record.h"
#include "bench/load/summary.h"
#include "nlohmann/json.hpp"

namespace baton::bench {

// A text of an error and how many requests ended with it.
struct ErrorCount {
  std::string text;
  int count = 0;
};

// The most frequent first. The texts have one line each.
std::vector<ErrorCount> CountErrors(absl::Span<const RequestRecord> records);

// Uses the keys of `vllm bench serve` and some of our own. `with_records` adds lists with an entry for each request.
// Latencies are null where no request has them.
nlohmann::ordered_json LoadJson(const LoadSetting& setting, const LoadSummary& summary,
                                absl::Span<const RequestRecord> records, bool with_records);

// The report for people. Without a completed request it has no latencies.
std::string LoadTable(const LoadSetting& setting, const LoadSummary& summary, absl::Span<const RequestRecord> records);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LOAD_REPORT_H_
