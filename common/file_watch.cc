#include "common/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace baton {

FileWatch::FileWatch(std::vector<std::string> paths) : paths_(std::move(paths)), seen_(Look()) {}

FileWatch::~FileWatch() {
  stopping_.Notify();
  if (thread_.joinable()) thread_.join();
}

void FileWatch::Start(std::function<void()> on_change, int64_t interval_ms) {
  on_change_ = std::move(on_change);
  thread_ = std::thread([this, interval_ms] { Run(interval_ms); });
}

std::vector<int64_t> FileWatch::Look() const {
  std::vector<int64_t> states;
  for (const std::string& path : paths_) {
    struct stat state {};
    if (stat(path.c_str(), &state) != 0) state = {};
    for (const auto value : {static_cast<int64_t>(state.st_dev), static_cast<int64_t>(state.st_ino),
                             static_cast<int64_t>(state.st_size), static_cast<int64_t>(state.st_mode),
                             static_cast<int64_t>(state.st_mtim.tv_sec), static_cast<int64_t>(state.st_mtim.tv_nsec)}) {
      states.push_back(value);
    }
  }
  return states;
}

void FileWatch::Run(int64_t interval_ms) {
  while (!stopping_.WaitForNotificationWithTimeout(absl::Milliseconds(interval_ms))) {
    std::vector<int64_t> now = Look();
    if (now == seen_) continue;
    // Before the files are read: a change that comes while they are is seen by the next look.
    seen_ = std::move(now);
    on_change_();
  }
}

}  // namespace baton
