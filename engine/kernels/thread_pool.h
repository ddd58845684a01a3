// Kernel threads of one engine: they run one job together, meet at barriers, and wait with a short spin before parking,
// because several processes share the cores of a small machine.
#ifndef BATON_ENGINE_KERNELS_THREAD_POOL_H_
#define BATON_ENGINE_KERNELS_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace baton::engine::kernels {

class ThreadPool {
 public:
  using Job = void (*)(void* argument, int thread);

  // `threads` >= 1 includes the one that calls Run. Every kernel thread runs in the floating-point state of
  // FpStateGuard.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Runs job(argument, t) for each t in [0, size) and returns when all are done. One caller at a time.
  void Run(Job job, void* argument);

  // Inside a job: returns when every thread of the pool has come here. Writes before it are seen after it.
  void Barrier();

 private:
  void Work(int thread);

  const int size_;
  Job job_ = nullptr;
  void* argument_ = nullptr;
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
