#include "cli/heap_trim.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

namespace baton::cli {
namespace {

// Resident bytes without those that are shared or of files, such as a KV pool; 0 where the kernel does not tell.
int64_t OwnBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0;
  if (!(file >> size >> resident >> shared)) return 0;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

}  // namespace

void LookAtHeap(HeapTrimPlan& plan) {
  if (!plan.IsDue(OwnBytes())) return;
  malloc_trim(0);
  plan.OnTrimmed(OwnBytes());
}

}  // namespace baton::cli
