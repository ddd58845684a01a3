// What the load generator sends and when: drawn from a seed or read from a trace. No I/O and no clock.
#ifndef BATON_BENCH_LOAD_WORKLOAD_H_
#define BATON_BENCH_LOAD_WORKLOAD_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::bench {

inline constexpr int kMaxRequests = 1'000'000;
inline constexpr int kMaxTokens = 1 << 20;

// Includes both ends.
struct LengthRange {
  int min = 1;
  int max = 1;
};

struct PlannedRequest {
  // Time after the start of the run.
  int64_t arrival_ns = 0;
  int prompt_tokens = 0;
  int output_tokens = 0;

  friend bool operator==(const PlannedRequest&, const PlannedRequest&) = default;
};

struct WorkloadOptions {
  int requests = 0;
  LengthRange prompt_tokens;
  LengthRange output_tokens;
  // Rate of Poisson arrivals. 0: all requests arrive at once, and only the number in flight limits them (closed loop).
  double requests_per_second = 0;
  uint64_t seed = 0;
};

// Requests in order of arrival. The same options give the same plan.
std::vector<PlannedRequest> PlanWorkload(const WorkloadOptions& options);

// A trace: one `arrival_s,prompt_tokens,output_tokens` a line, in order of arrival; `#` starts a comment, and a first
// line of names is skipped. INVALID_ARGUMENT names the line. At most kMaxRequests.
absl::StatusOr<std::vector<PlannedRequest>> ParseTrace(std::string_view text);

// "512" or "128:512".
absl::StatusOr<LengthRange> ParseLengthRange(std::string_view text);

// Ids in [0, vocab_size). The same seed and index give the same ids, whatever was drawn before.
std::vector<int32_t> PromptIds(uint64_t seed, int index, int count, int32_t vocab_size);

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_WORKLOAD_H_
