// Kernel threads of one engine: they run one job together, meet at barriers, and wait with a short spin before parking,
// because several processes share the cores of a small machine.
//
// A pool with a thread for each core that the process may use binds thread t to core t while a job runs. Otherwise the
// scheduler, which sees threads sleep and wake at barriers, may take two of them for the work of one and leave both on
// one core while another is idle. The pool's own threads ask for long time slices. A thread that wakes with a shorter
// slice, such as one that passes a token on, then mostly runs at once instead of at the next tick of the timer
// (Linux 6.12 and later, sched_setattr(2)).
#ifndef BATON_ENGINE_KERNELS_THREAD_POOL_H_
#define BATON_ENGINE_KERNELS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/kernels/futex_counter.h"

namespace baton::engine::kernels {

// What the thread that calls Run does while the job runs.
enum class PoolCaller {
  // It is thread 0, so no thread need wake up to start or to end a job.
  kComputes,
  // It sleeps. Where processes share the cores, a thread that has computed for long waits behind those of its
  // neighbours. A thread that slept can hand tokens on and ask for the cores at once.
  kWaits,
};

class ThreadPool {
 public:
  // `threads` >= 1. Every kernel thread runs in the floating-point state of FpStateGuard.
  explicit ThreadPool(int threads, PoolCaller caller = PoolCaller::kComputes);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Runs job(t) for each t in [0, size) and returns when all are done. One caller at a time.
  void Run(absl::FunctionRef<void(int thread)> job);

  // Inside a job: returns when every thread of the pool has called it. Writes before the barrier are seen after it.
  void Barrier();

  // Inside a job, called by thread 0: `fn` runs on the thread that called Run. Returns when it has run.
  void OnCaller(absl::FunctionRef<void()> fn);

 private:
  void Work(int thread);
  // The loop of a caller that waits: serves OnCaller until the job is done.
  void ServeUntilDone();
  // Binds the calling thread to the core of pool thread `thread`, or to all that the process may use.
  void Bind(int thread) const;
  void Unbind() const;

  const int size_;
  const PoolCaller caller_;
  // The cores that the process may use. Empty when their number is not `size_`: then no thread is bound.
  std::vector<int> cores_;
  // The running job, which is Run's argument.
  const absl::FunctionRef<void(int thread)>* job_ = nullptr;
  // Raised by one to start a job.
  FutexCounter epoch_;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int32_t> arrived_{0};
  // Raised by one when all threads have arrived.
  FutexCounter generation_;
  // For a caller that waits. Thread 0 raises `asked_` when `call_` is to run, or, with no call, when the job is done.
  // The caller raises `answered_` after a call.
  const absl::FunctionRef<void()>* call_ = nullptr;
  FutexCounter asked_;
  FutexCounter answered_;
  std::vector<std::thread> threads_;
};

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_THREAD_POOL_H_
