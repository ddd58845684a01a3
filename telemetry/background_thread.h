// What all threads of telemetry have in common: serving goes first.
#ifndef BATON_TELEMETRY_BACKGROUND_THREAD_H_
#define BATON_TELEMETRY_BACKGROUND_THREAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton::telemetry {

// A thread with a name, of lower priority than those that serve, whose CPU time is known also after its end.
class BackgroundThread {
 public:
  // `name` has at most 15 characters. `run` returns when the thread ends.
  BackgroundThread(std::string name, std::function<void()> run);
  // Requires that `run` ends.
  ~BackgroundThread();

  // Waits for the end for at most `timeout_ms`; false when it has not come.
  bool WaitForEnd(int64_t timeout_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  // Thread-safe.
  int64_t cpu_ns() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run(const std::string& name, const std::function<void()>& run);

  mutable absl::Mutex mutex_;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t final_cpu_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  // The constructor alone sets it. The thread lives at least until it sets has_ended_.
  std::thread thread_;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_BACKGROUND_THREAD_H_
