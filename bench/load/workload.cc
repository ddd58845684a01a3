#include "bench/load/workload.h"

#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/status.h"

namespace baton::bench {
namespace {

// One seed gives streams that do not overlap: one for the plan and one for each prompt.
constexpr uint64_t kStreamStep = 0x9e3779b97f4a7c15;
constexpr double kMaxTraceSeconds = 1e6;

// In (0, 1].
double Uniform(RandomSource& random) { return (static_cast<double>(random.Next64() >> 11) + 1) * 0x1p-53; }

int Draw(const LengthRange& range, RandomSource& random) {
  return range.min + static_cast<int>(random.Below(static_cast<uint64_t>(range.max - range.min) + 1));
}

absl::StatusOr<PlannedRequest> ParseTraceLine(absl::string_view line, int number) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  PlannedRequest request;
  double arrival_s = 0;
  const bool is_valid = fields.size() == 3 && absl::SimpleAtod(fields[0], &arrival_s) &&
                        absl::SimpleAtoi(fields[1], &request.prompt_tokens) &&
                        absl::SimpleAtoi(fields[2], &request.output_tokens) && arrival_s >= 0 &&
                        arrival_s <= kMaxTraceSeconds && request.prompt_tokens >= 1 && request.output_tokens >= 1 &&
                        request.prompt_tokens <= kMaxTokens && request.output_tokens <= kMaxTokens;
  if (!is_valid) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", number, ": expected arrival_s,prompt_tokens,output_tokens, found: ", line.substr(0, 80)));
  }
  request.arrival_ns = static_cast<int64_t>(arrival_s * kNsPerSecond);
  return request;
}

bool IsHeader(absl::string_view line) { return line.find_first_of("0123456789") == absl::string_view::npos; }

}  // namespace

std::vector<PlannedRequest> PlanWorkload(const WorkloadOptions& options) {
  BATON_CHECK(options.requests >= 0 && options.requests <= kMaxRequests) << options.requests;
  SeededRandom random(options.seed);
  std::vector<PlannedRequest> plan;
  plan.reserve(static_cast<size_t>(options.requests));
  double arrival_s = 0;
  for (int i = 0; i < options.requests; ++i) {
    if (options.requests_per_second > 0) arrival_s -= std::log(Uniform(random)) / options.requests_per_second;
    plan.push_back({.arrival_ns = static_cast<int64_t>(arrival_s * kNsPerSecond),
                    .prompt_tokens = Draw(options.prompt_tokens, random),
                    .output_tokens = Draw(options.output_tokens, random)});
  }
  return plan;
}

absl::StatusOr<std::vector<PlannedRequest>> ParseTrace(std::string_view text) {
  std::vector<PlannedRequest> plan;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty() || (plan.empty() && IsHeader(line))) continue;
    BATON_ASSIGN_OR_RETURN(const PlannedRequest request, ParseTraceLine(line, number));
    if (!plan.empty() && request.arrival_ns < plan.back().arrival_ns) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": the request arrives before the one above it"));
    }
    if (plan.size() >= static_cast<size_t>(kMaxRequests)) {
      return absl::InvalidArgumentError(absl::StrCat("the trace has more than ", kMaxRequests, " requests"));
    }
    plan.push_back(request);
  }
  if (plan.empty()) return absl::InvalidArgumentError("the trace has no requests");
  return plan;
}

absl::StatusOr<LengthRange> ParseLengthRange(std::string_view text) {
  const std::vector<std::string> ends = absl::StrSplit(absl::string_view(text.data(), text.size()), ':');
  LengthRange range;
  const bool is_valid = ends.size() <= 2 && absl::SimpleAtoi(ends.front(), &range.min) &&
                        absl::SimpleAtoi(ends.back(), &range.max) && range.min >= 1 && range.min <= range.max &&
                        range.max <= kMaxTokens;
  if (!is_valid)
    return absl::InvalidArgumentError(absl::StrCat("not a length such as 512 or 128:512: ", std::string(text)));
  return range;
}

std::vector<int32_t> PromptIds(uint64_t seed, int index, int count, int32_t vocab_size) {
  BATON_CHECK(vocab_size > 0) << vocab_size;
  SeededRandom start(seed ^ (kStreamStep * (static_cast<uint64_t>(index) + 1)));
  SeededRandom random(start.Next64());
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab_size)));
  return ids;
}

}  // namespace baton::bench
