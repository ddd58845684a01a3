// Kernel threads of one engine: they run one job together, meet at barriers, and wait with a short spin before parking,
// because several processes share the cores of a small machine.
//
// A pool with a thread for each core that the process may use binds thread t to core t while a job runs. A scheduler
// that sees threads sleep and wake at barriers otherwise takes two for one's work and leaves them on one core, the
// other idle.
#ifndef BATON_ENGINE_KERNELS_THREAD_POOL_H_
#define BATON_ENGINE_KERNELS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace baton::engine::kernels {

class ThreadPool {
 public:
  // `threads` >= 1 includes the one that calls Run. Every kernel thread runs in the floating-point state of
  // FpStateGuard.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Runs job(t) for each t in [0, size) and returns when all are done. One caller at a time.
  void Run(absl::FunctionRef<void(int thread)> job);

  // Inside a job: returns when every thread of the pool has come here. Writes before it are seen after it.
  void Barrier();

 private:
  void Work(int thread);
  // The calling thread's cores: the one of pool thread `thread`, or all that the process may use.
  void Bind(int thread) const;
  void Unbind() const;

  const int size_;
  // That the process may use; empty where nothing is bound, because they are not as many as `size_`.
  std::vector<int> cores_;
  // Of the running job: Run's own.
  const absl::FunctionRef<void(int thread)>* job_ = nullptr;
  // Raised by one to start a job.
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int32_t> arrived_{0};
  // Raised by one when all have arrived.
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::vector<std::thread> threads_;
};

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_THREAD_POOL_H_
