// A progress line on stderr while a load runs; nothing where stderr is no terminal.
#ifndef BATON_BENCH_LOAD_PROGRESS_H_
#define BATON_BENCH_LOAD_PROGRESS_H_

#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bench/load/load_runner.h"
#include "common/clock.h"

namespace baton::bench {

// Shows `progress` until it is destroyed; then the line is wiped.
class ProgressLine {
 public:
  ProgressLine(std::string label, int total, const LoadProgress& progress, const Clock& clock);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  void Run();
  void Draw() const;

  const std::string label_;
  const int total_;
  const LoadProgress& progress_;
  const Clock& clock_;
  const TimeNs begin_;
  absl::Mutex mutex_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_PROGRESS_H_
