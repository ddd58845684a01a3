// A counter on which threads of one process wait: kernel threads at barriers, and the thread that waits for them.
//
// std::atomic::wait would do, but libstdc++ calls sched_yield() before it sleeps. Linux then takes a whole time slice
// from the thread's share (EEVDF), so that the thread waits for milliseconds after it is woken.
#ifndef BATON_ENGINE_KERNELS_FUTEX_COUNTER_H_
#define BATON_ENGINE_KERNELS_FUTEX_COUNTER_H_

#include <atomic>
#include <cstdint>

namespace baton::engine::kernels {

// Any thread may call. Writes before Raise are seen after the wait that it ends.
class alignas(64) FutexCounter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  // Adds one.
  void Raise();
  // Returns when the value is no longer `old`; sleeps at once.
  void Park(uint32_t old);
  // The same for a value that changes soon. Spins for 20 to 50 us first: longer than threads of a balanced phase
  // differ, shorter than a time slice that a neighbour could use.
  void Await(uint32_t old);

 private:
  std::atomic<uint32_t> value_{0};
  // Lets Raise make no system call when nobody sleeps.
  std::atomic<int32_t> sleepers_{0};
};

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_FUTEX_COUNTER_H_
