#include "common/progress_line.h"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);
constexpr int kBarCells = 30;
constexpr char kWipe[] = "\r\033[K";

}  // namespace

ProgressLine::ProgressLine(std::function<std::string()> text, absl::Duration delay)
    : text_(std::move(text)), delay_(delay) {
  if (isatty(STDERR_FILENO)) thread_ = std::thread([this] { Run(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    is_over_ = true;
  }
  thread_.join();
}

void ProgressLine::Run() {
  absl::MutexLock lock(&mutex_);
  if (mutex_.AwaitWithTimeout(absl::Condition(&is_over_), delay_)) return;
  while (!mutex_.AwaitWithTimeout(absl::Condition(&is_over_), kPeriod)) std::cerr << kWipe << text_() << std::flush;
  std::cerr << kWipe << std::flush;
}

std::string ProgressBar(double part) {
  const int filled = static_cast<int>(kBarCells * part);
  return absl::StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                      std::string(static_cast<size_t>(kBarCells - filled), '.'), "]");
}

}  // namespace baton
