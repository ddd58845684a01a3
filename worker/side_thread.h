// A thread of low priority beside the engine's loop.
#ifndef BATON_WORKER_SIDE_THREAD_H_
#define BATON_WORKER_SIDE_THREAD_H_

#include <atomic>
#include <cstddef>
#include <functional>

#include "common/ids.h"
#include "common/limits.h"
#include "common/work_pool.h"
#include "worker/side_work.h"

namespace baton::worker {

class SideThread final : public SideWork {
 public:
  // On a busy core this gets about a tenth of the time, so that a step hardly waits for it.
  static constexpr int kNice = 10;
  // Grammars of all jobs that may wait for them: those with a slot, and the prompts that are next.
  static constexpr size_t kMaxQueuedBytes =
      (size_t{kMaxSequences} + size_t{kMaxPreparedPrompts}) * (kMaxGrammarBytes + WorkPool::kBytesPerTask);

  // `post` hands a task to the loop, and drops it once the loop has stopped. It is called by the thread.
  explicit SideThread(std::function<void(Task)> post, size_t max_queued_bytes = kMaxQueuedBytes);
  ~SideThread() override { Stop(); }

  [[nodiscard]] bool Post(const Id128& id, size_t bytes, std::function<Task()> work) override;
  void Drop(const Id128& id) override { pool_.Drop(id); }
  bool is_stopping() const override { return is_stopping_; }
  // Returns when the work that has begun is done. What waits is dropped. Any thread, once the loop has stopped.
  void Stop() {
    is_stopping_ = true;
    pool_.Stop();
  }

 private:
  const std::function<void(Task)> post_;
  std::atomic<bool> is_stopping_ = false;
  WorkPool pool_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SIDE_THREAD_H_
