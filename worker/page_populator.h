// Backs the pages of a KV pool before the engine touches them.
#ifndef BATON_WORKER_PAGE_POPULATOR_H_
#define BATON_WORKER_PAGE_POPULATOR_H_

#include <cstddef>
#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

namespace baton::worker {

// Backs the pages that follow those in use, on a thread of low priority. The engine takes a pool into use from its
// start, so it finds backed pages whenever it needs more, and a pool that is hardly used costs hardly any memory.
// Transfers into unbacked pages take twice as long.
class PagePopulator {
 public:
  // `memory` starts at a page's edge and outlives the populator.
  PagePopulator(absl::Span<uint8_t> memory, size_t ahead_bytes);
  ~PagePopulator();

  // The first `bytes` of the memory are in use. Any thread; cheap.
  void SetUsed(size_t bytes);

 private:
  void Run();

  const absl::Span<uint8_t> memory_;
  const size_t ahead_bytes_;
  absl::Mutex mutex_;
  size_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_PAGE_POPULATOR_H_
