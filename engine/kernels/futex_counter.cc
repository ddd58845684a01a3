#include "engine/kernels/futex_counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <climits>

namespace baton::engine::kernels {
namespace {

constexpr int kSpins = 600;

}  // namespace

// Sequentially consistent, as in Park: either this thread sees the sleeper, or the sleeper sees the new value.
void FutexCounter::Raise() {
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void FutexCounter::Park(uint32_t old) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // Returns at once when the value has changed, and now and then without a reason.
  while (value_.load(std::memory_order_seq_cst) == old) {
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void FutexCounter::Await(uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value() != old) return;
    _mm_pause();
  }
  Park(old);
}

}  // namespace baton::engine::kernels
