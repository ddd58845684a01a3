// What one render may use. A template is a program that somebody else wrote, so every evaluation, copy and allocation
// is charged here before it happens.
#ifndef BATON_TOKENIZER_JINJA_BUDGET_H_
#define BATON_TOKENIZER_JINJA_BUDGET_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/clock.h"

namespace baton::tokenizer::jinja {

struct Limits {
  size_t template_bytes = 256u << 10;
  // The nesting of expressions and statements in the template's text, and thus the depth of its syntax tree.
  int syntax_depth = 192;
  // How deep evaluations may nest while rendering, also through macros. This bounds the C++ stack.
  int evaluation_depth = 384;
  // How deep lists may nest in lists.
  int value_depth = 64;
  int64_t steps = 20'000'000;
  size_t output_bytes = 16u << 20;
  // Bytes of all values that are made, whether or not they live at the same time.
  size_t allocated_bytes = 256u << 20;
  int64_t time_ms = 2'000;
};

// For one render; one thread.
class Budget {
 public:
  // `clock` must outlive the budget.
  Budget(const Limits& limits, const Clock& clock);

  // RESOURCE_EXHAUSTED when steps are spent, DEADLINE_EXCEEDED when time is.
  absl::Status Step(int64_t steps = 1);
  // Charges bytes that are read: comparing, searching and counting cost less than evaluating.
  absl::Status Scan(size_t bytes) { return Step(1 + static_cast<int64_t>(bytes / kScannedBytesPerStep)); }
  // Charges a string or list of this size before it is made. It counts as a scan too.
  absl::Status Allocate(size_t bytes);
  absl::Status CheckOutput(size_t output_bytes) const;
  absl::Status CheckValueDepth(int depth) const;

  // RAII for one evaluation; ok() is false beyond the limit.
  class Nested {
   public:
    explicit Nested(Budget* budget) : budget_(budget) { ++budget_->depth_; }
    ~Nested() { --budget_->depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    absl::Status status() const;

   private:
    Budget* budget_;
  };

  const Limits& limits() const { return limits_; }

 private:
  static constexpr size_t kScannedBytesPerStep = 64;
  // Reading the clock costs about as much as a step.
  static constexpr int64_t kStepsPerClockRead = 512;

  const Limits limits_;
  const Clock& clock_;
  const TimeNs deadline_ns_;
  int64_t steps_left_;
  int64_t steps_to_clock_read_ = kStepsPerClockRead;
  size_t bytes_left_;
  int depth_ = 0;
};

}  // namespace baton::tokenizer::jinja

#endif  // BATON_TOKENIZER_JINJA_BUDGET_H_
