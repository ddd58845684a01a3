// Kernel threads of one engine: they run one job together, meet at barriers, and wait with a short spin before parking,
// because several processes share the cores of a small machine.
//
// A pool with a thread for each core that the process may use binds thread t to core t while a job runs. A scheduler
// that sees threads sleep and wake at barriers otherwise takes two for one's work and leaves them on one core, the
// other idle. The pool's own threads ask for long time slices: whatever wakes with a shorter one, as a thread that
// carries a token on, then mostly runs at once instead of at the next tick of the timer (Linux 6.12 and later,
// sched_setattr(2)).
#ifndef BATON_ENGINE_KERNELS_THREAD_POOL_H_
#define BATON_ENGINE_KERNELS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/kernels/futex_counter.h"

namespace baton::engine::kernels {

// What the thread that calls Run does meanwhile.
enum class PoolCaller {
  // It is thread 0: nothing need wake up to start a job or to end it.
  kComputes,
  // It sleeps. Where processes share the cores, a thread that has computed for long waits behind its neighbours'; this
  // one still hands tokens on and asks for the cores at once.
  kWaits,
};

class ThreadPool {
 public:
  // Of `threads` >= 1. Every kernel thread runs in the floating-point state of FpStateGuard.
  explicit ThreadPool(int threads, PoolCaller caller = PoolCaller::kComputes);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Runs job(t) for each t in [0, size) and returns when all are done. One caller at a time.
  void Run(absl::FunctionRef<void(int thread)> job);

  // Inside a job: returns when every thread of the pool has come here. Writes before it are seen after it.
  void Barrier();

  // Inside a job, by thread 0: `fn` runs on the thread that called Run. Returns after it.
  void OnCaller(absl::FunctionRef<void()> fn);

 private:
  void Work(int thread);
  // The part of a caller that waits: calls, until the job is done.
  void ServeUntilDone();
  // The calling thread's cores: the one of pool thread `thread`, or all that the process may use.
  void Bind(int thread) const;
  void Unbind() const;

  const int size_;
  const PoolCaller caller_;
  // That the process may use; empty where nothing is bound, because they are not as many as `size_`.
  std::vector<int> cores_;
  // Of the running job: Run's own.
  const absl::FunctionRef<void(int thread)>* job_ = nullptr;
  // Raised by one to start a job.
  FutexCounter epoch_;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int32_t> arrived_{0};
  // Raised by one when all have arrived.
  FutexCounter generation_;
  // Of a caller that waits. Thread 0 raises `asked_` when `call_` is to run, or when there is none and the job is done;
  // the caller raises `answered_` after a call.
  const absl::FunctionRef<void()>* call_ = nullptr;
  FutexCounter asked_;
  FutexCounter answered_;
  std::vector<std::thread> threads_;
};

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_THREAD_POOL_H_
