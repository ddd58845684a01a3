#include "router/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

// Requests that the average remembers, roughly.
constexpr double kRequestsSmoothed = 16;
// A line may take so many times as long as it seems to.
constexpr int64_t kLineMargin = 2;

absl::Status ForDeadline(const std::string& what, int64_t retry_after_ms) {
  return WithRetryAfter(WithReason(absl::ResourceExhaustedError(what), RefusalReason::kDeadline), retry_after_ms);
}

}  // namespace

void Admission::OnOutputs(int32_t output_tokens, int64_t elapsed_ns) {
  if (output_tokens < 2) return;
  const double ns = static_cast<double>(elapsed_ns) / (output_tokens - 1);
  outputs_.Add(1, static_cast<int64_t>(ns));
  ns_per_output_ += ns_per_output_ == 0 ? ns : (ns - ns_per_output_) / kRequestsSmoothed;
}

int64_t Admission::ExcessNs(const Forecast& forecast, int64_t left_ns, int32_t least_outputs) const {
  if (forecast.line_ns == 0) return 0;
  const auto outputs_ns = static_cast<int64_t>(ns_per_output_ * (least_outputs - 1));
  const int64_t rest_ns = forecast.prompt_ns + outputs_ns;
  return std::clamp<int64_t>(forecast.line_ns - (left_ns - rest_ns) / kLineMargin, 0, forecast.line_ns);
}

TimeNs Admission::LastStart(const JobSpec& spec) const {
  if (spec.deadline == kNever) return kNever;
  return spec.deadline - prompts_.Of(spec.prompt_tokens()) - outputs_.Of(1) * (spec.least_outputs - 1);
}

absl::Status RefusedForDeadline(const Forecast& forecast, int64_t left_ns, int64_t retry_after_ms) {
  return ForDeadline(absl::StrCat("it might wait ", kLineMargin * forecast.line_ns / kNsPerMs,
                                  " ms behind the requests that go before it, and its deadline is in ",
                                  left_ns / kNsPerMs, " ms: come back later, or with more time"),
                     retry_after_ms);
}

absl::Status DroppedForDeadline(int64_t left_ns, int64_t retry_after_ms) {
  return ForDeadline(absl::StrCat("no worker had room in time: the deadline is in ", left_ns / kNsPerMs,
                                  " ms, and its prompt alone takes longer: come back later, or with more time"),
                     retry_after_ms);
}

}  // namespace baton::router
