#include "common/work_pool.h"

#include <sys/resource.h>

#include <utility>

#include "common/check.h"

namespace baton {
namespace {

// Linux gives each thread a nice value of its own, and takes 0 for the calling thread. A system that refuses leaves the
// thread as it was.
void RaiseNiceOfThisThread(int by) { setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + by); }

}  // namespace

WorkPool::WorkPool(const WorkPoolOptions& options, const Clock& clock) : options_(options), clock_(clock) {
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkPool::~WorkPool() { Stop(); }

bool WorkPool::Post(WorkTask task) {
  const size_t bytes = task.bytes + kBytesPerTask;
  absl::MutexLock lock(&mutex_);
  if (stopping_ || bytes > options_.max_queued_bytes - queued_bytes_) return false;
  const Id128 id = task.id;
  queue_.push_back(std::move(task));
  const bool is_new = by_id_.try_emplace(id, std::prev(queue_.end())).second;
  BATON_CHECK(is_new) << "two tasks have the id " << id.ToHex();
  queued_bytes_ += bytes;
  return true;
}

WorkPool::Queue WorkPool::Take(Queue::iterator task) {
  by_id_.erase(task->id);
  queued_bytes_ -= task->bytes + kBytesPerTask;
  Queue taken;
  taken.splice(taken.begin(), queue_, task);
  return taken;
}

bool WorkPool::Drop(const Id128& id) {
  Queue dropped;
  absl::MutexLock lock(&mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return false;
  dropped = Take(it->second);
  return true;
}

void WorkPool::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkPool::Run() {
  RaiseNiceOfThisThread(options_.nice);
  while (true) {
    Queue taken;
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &WorkPool::HasTaskOrStopping));
      if (queue_.empty()) return;
      taken = Take(queue_.begin());
      if (stopping_) status = absl::UnavailableError("the server is shutting down: use another one");
    }
    WorkTask& task = taken.front();
    if (status.ok() && task.deadline <= clock_.Now()) status = absl::DeadlineExceededError("waited for its turn");
    task.run(status);
  }
}

}  // namespace baton
