#include "common/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace baton {

int CountUsableCores() {
  cpu_set_t set;
  // It fails where there are more than a cpu_set_t holds.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace baton
