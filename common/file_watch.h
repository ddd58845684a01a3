// Notices that files have changed: new content, another file under the same name, or a link that leads elsewhere.
#ifndef BATON_COMMON_FILE_WATCH_H_
#define BATON_COMMON_FILE_WATCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace baton {

// How often the files of certificates and keys are looked at.
inline constexpr int64_t kFileWatchIntervalMs = 1'000;

class FileWatch {
 public:
  // Notes the files as they are now. Whoever reads them next misses no change.
  explicit FileWatch(std::vector<std::string> paths);
  ~FileWatch();

  // Once. From now on a thread of the watch's own calls `on_change` after each look that finds a change since the
  // former look.
  void Start(std::function<void()> on_change, int64_t interval_ms = kFileWatchIntervalMs);

 private:
  // What tells one state of the files from another. A file that cannot be looked at is such a state, too.
  std::vector<int64_t> Look() const;
  void Run(int64_t interval_ms);

  const std::vector<std::string> paths_;
  // The constructor's, then the thread's.
  std::vector<int64_t> seen_;
  std::function<void()> on_change_;
  absl::Notification stopping_;
  std::thread thread_;
};

}  // namespace baton

#endif  // BATON_COMMON_FILE_WATCH_H_
