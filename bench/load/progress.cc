#include "bench/load/progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace baton::bench {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);
constexpr int kBarCells = 30;
constexpr char kWipe[] = "\r\033[K";

}  // namespace

ProgressLine::ProgressLine(std::string label, int total, const LoadProgress& progress, const Clock& clock)
    : label_(std::move(label)), total_(total), progress_(progress), clock_(clock), begin_(clock.Now()) {
  if (isatty(STDERR_FILENO)) thread_ = std::thread([this] { Run(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    is_over_ = true;
  }
  thread_.join();
  std::cerr << kWipe << std::flush;
}

void ProgressLine::Run() {
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&is_over_), kPeriod)) Draw();
}

void ProgressLine::Draw() const {
  const int ended = progress_.ended.load(std::memory_order_relaxed);
  const int failed = progress_.failed.load(std::memory_order_relaxed);
  const double seconds = std::max(1e-3, static_cast<double>(clock_.Now() - begin_) / kNsPerSecond);
  const int filled = total_ > 0 ? static_cast<int>(int64_t{kBarCells} * ended / total_) : 0;
  std::cerr << kWipe
            << absl::StreamFormat("%s [%s%s] %d/%d, %.1f outputs/s, %.0f s", label_, std::string(filled, '#'),
                                  std::string(kBarCells - filled, '.'), ended, total_,
                                  progress_.outputs.load(std::memory_order_relaxed) / seconds, seconds)
            << (failed > 0 ? absl::StrCat(", ", failed, " failed") : "") << std::flush;
}

}  // namespace baton::bench
