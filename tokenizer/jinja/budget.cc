#include "tokenizer/jinja/budget.h"

#include "absl/strings/str_cat.h"

namespace baton::tokenizer::jinja {

Budget::Budget(const Limits& limits, const Clock& clock)
    : limits_(limits),
      clock_(clock),
      deadline_ns_(After(clock.Now(), limits.time_ms)),
      steps_left_(limits.steps),
      bytes_left_(limits.allocated_bytes) {}

absl::Status Budget::Step(int64_t steps) {
  if (steps > steps_left_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the chat template takes more than ", limits_.steps, " steps to render"));
  }
  steps_left_ -= steps;
  steps_to_clock_read_ -= steps;
  if (steps_to_clock_read_ > 0) return absl::OkStatus();
  steps_to_clock_read_ = kStepsPerClockRead;
  if (clock_.Now() >= deadline_ns_) {
    return absl::DeadlineExceededError(
        absl::StrCat("the chat template takes longer than ", limits_.time_ms, " ms to render"));
  }
  return absl::OkStatus();
}

absl::Status Budget::Allocate(size_t bytes) {
  if (bytes > bytes_left_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the chat template makes values of more than ", limits_.allocated_bytes, " bytes"));
  }
  bytes_left_ -= bytes;
  return Scan(bytes);
}

absl::Status Budget::CheckOutput(size_t output_bytes) const {
  if (output_bytes <= limits_.output_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the chat template writes more than ", limits_.output_bytes, " bytes"));
}

absl::Status Budget::CheckValueDepth(int depth) const {
  if (depth <= limits_.value_depth) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the chat template nests values more than ", limits_.value_depth, " deep"));
}

absl::Status Budget::Nested::status() const {
  if (budget_->depth_ <= budget_->limits_.evaluation_depth) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the chat template nests evaluations more than ", budget_->limits_.evaluation_depth, " deep"));
}

}  // namespace baton::tokenizer::jinja
