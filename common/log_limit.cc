#include "common/log_limit.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

std::atomic<uint64_t> dropped_log_lines = 0;

}  // namespace

LogLimit::LogLimit(const Options& options, const Clock& clock) : options_(options), clock_(clock) {}

std::optional<uint64_t> LogLimit::Admit() {
  const TimeNs now = clock_.Now();
  const absl::MutexLock lock(&mutex_);
  if (now >= period_end_) {
    period_end_ = After(now, options_.period_ms);
    lines_ = 0;
  }
  if (lines_ == options_.lines_per_period) {
    ++left_out_;
    dropped_log_lines.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  ++lines_;
  return std::exchange(left_out_, 0);
}

std::string LeftOutNote(uint64_t left_out) {
  if (left_out == 0) return {};
  return absl::StrCat(" (", left_out, left_out == 1 ? " similar line" : " similar lines", " left out)");
}

uint64_t DroppedLogLines() { return dropped_log_lines.load(std::memory_order_relaxed); }

}  // namespace baton
