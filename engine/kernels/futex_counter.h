// A counter that threads of one process wait on: kernel threads at barriers, and who waits for them.
//
// std::atomic::wait would do, were it not that libstdc++ calls sched_yield() before it sleeps. Linux then takes a whole
// time slice from the thread's share (EEVDF): it waits for milliseconds once it is woken.
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
  // The same for what changes soon: spins for 20 to 50 us first, longer than a balanced phase's imbalance, shorter than
  // a time slice that a neighbour could use.
  void Await(uint32_t old);

 private:
  std::atomic<uint32_t> value_{0};
  // Raise makes no system call for nobody.
  std::atomic<int32_t> sleepers_{0};
};

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_FUTEX_COUNTER_H_
