// Whom a worker computes for at this moment, kept so that a process that dies of a fault of its own can still say it.
#ifndef BATON_COMMON_WORK_NOTE_H_
#define BATON_COMMON_WORK_NOTE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "common/ids.h"
#include "common/limits.h"

namespace baton {

// Written by one thread, the engine's loop, without a lock or an allocation.
class WorkNote {
 public:
  // The loop works for this attempt too, until Clear. A step has no more than kMaxSequences.
  void Add(const JobKey& key) {
    const size_t count = count_.load(std::memory_order_relaxed);
    if (count == keys_.size()) return;
    keys_[count] = key;
    count_.store(count + 1, std::memory_order_release);
  }
  void Clear() { count_.store(0, std::memory_order_release); }

  // Once the writer stands still, because it has died or waits for what has.
  std::vector<JobKey> Read() const {
    const size_t count = count_.load(std::memory_order_acquire);
    return {keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  std::array<JobKey, kMaxSequences> keys_;
  std::atomic<size_t> count_{0};
};

}  // namespace baton

#endif  // BATON_COMMON_WORK_NOTE_H_
