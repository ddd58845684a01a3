// Memory that is there before it is needed.
#ifndef BATON_COMMON_POPULATE_PAGES_H_
#define BATON_COMMON_POPULATE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

namespace baton {

// Has the system back every page of `memory`, which starts at a page, and changes no byte. Others may use the memory
// meanwhile: a page that they touch first costs them a fault, as it does without this call. RESOURCE_EXHAUSTED when
// memory runs out.
absl::Status PopulatePages(absl::Span<uint8_t> memory);

// Maps the pages of `memory`, which starts at a page and is there already, for reading: one call instead of a fault
// each. Best effort: what it does not map is mapped when it is read.
void MapPages(absl::Span<const uint8_t> memory);

// Keeps some pages of a KV pool behind those in use backed, on a thread of low priority: memory that is taken into use
// from its start on is there when it is needed, and costs nothing before.
class PagePopulator {
 public:
  // `memory` starts at a page and outlives the populator.
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

}  // namespace baton

#endif  // BATON_COMMON_POPULATE_PAGES_H_
