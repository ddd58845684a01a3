#include "bench/load/progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::bench {

LoadProgressLine::LoadProgressLine(std::string label, int total, const LoadProgress& progress, const Clock& clock)
    : label_(std::move(label)), total_(total), progress_(progress), clock_(clock), begin_(clock.Now()), line_([this] {
        return Text();
      }) {}

std::string LoadProgressLine::Text() const {
  const int ended = progress_.ended.load(std::memory_order_relaxed);
  const int failed = progress_.failed.load(std::memory_order_relaxed);
  const double seconds = std::max(1e-3, static_cast<double>(clock_.Now() - begin_) / kNsPerSecond);
  return absl::StrFormat("%s %s %d/%d, %.1f outputs/s, %.0f s%s", label_,
                         ProgressBar(total_ > 0 ? static_cast<double>(ended) / total_ : 0), ended, total_,
                         progress_.outputs.load(std::memory_order_relaxed) / seconds, seconds,
                         failed > 0 ? absl::StrCat(", ", failed, " failed") : "");
}

}  // namespace baton::bench
