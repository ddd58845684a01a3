// A bounded queue of tasks with threads of its own, for work that others must not wait for.
#ifndef BATON_COMMON_WORK_POOL_H_
#define BATON_COMMON_WORK_POOL_H_

#include <cstddef>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/ids.h"

namespace baton {

struct WorkPoolOptions {
  int threads = 1;
  // The threads' nice value is the process's own plus this.
  int nice = 0;
  // All tasks that wait, each with kBytesPerTask besides its own.
  size_t max_queued_bytes = 0;
};

struct WorkTask {
  // Names the task to Drop. No two tasks that wait have the same.
  Id128 id;
  // The memory that the task holds while it waits.
  size_t bytes = 0;
  TimeNs deadline = kNever;
  // Runs once, on a thread of the pool: with OK to do the work; otherwise with DEADLINE_EXCEEDED or UNAVAILABLE (the
  // pool stops), only to say so to whoever asked for it.
  std::function<void(const absl::Status&)> run;
};

// Tasks run in the order in which they came. A refusal takes a lock and compares two numbers. Thread-safe.
class WorkPool {
 public:
  // What a waiting task costs beside the bytes that it states.
  static constexpr size_t kBytesPerTask = 1024;

  // `clock` outlives the pool.
  WorkPool(const WorkPoolOptions& options, const Clock& clock);
  ~WorkPool();

  // False when the task does not fit into the queue, or the pool has stopped; `run` is then never called.
  [[nodiscard]] bool Post(WorkTask task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes a task that waits out of the queue, with its memory. False when no such task waits: it runs or has run.
  bool Drop(const Id128& id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The bytes of the tasks that wait.
  size_t queued_bytes() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return queued_bytes_;
  }
  // Refuses later tasks and returns when the waiting ones have heard that the pool stops.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Queue = std::list<WorkTask>;

  void Run();
  bool HasTaskOrStopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); }
  // The task leaves the queue. The caller destroys it without the lock.
  Queue Take(Queue::iterator task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const WorkPoolOptions options_;
  const Clock& clock_;
  mutable absl::Mutex mutex_;
  Queue queue_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Id128, Queue::iterator> by_id_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace baton

#endif  // BATON_COMMON_WORK_POOL_H_
