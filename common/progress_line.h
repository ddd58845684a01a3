// A progress line on stderr while something takes long. It shows nothing when stderr is not a terminal.
#ifndef BATON_COMMON_PROGRESS_LINE_H_
#define BATON_COMMON_PROGRESS_LINE_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace baton {

// Shows text() until this object is destroyed, and then wipes the line. The object's own thread calls `text`, for the
// first time after `delay`.
class ProgressLine {
 public:
  explicit ProgressLine(std::function<std::string()> text, absl::Duration delay = absl::ZeroDuration());
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  void Run();

  const std::function<std::string()> text_;
  const absl::Duration delay_;
  absl::Mutex mutex_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// "[######....]"; `part` is between 0 and 1.
std::string ProgressBar(double part);

}  // namespace baton

#endif  // BATON_COMMON_PROGRESS_LINE_H_
