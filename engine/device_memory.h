// The memory of a device as one process sees it.
#ifndef BATON_ENGINE_DEVICE_MEMORY_H_
#define BATON_ENGINE_DEVICE_MEMORY_H_

#include <cstdint>

namespace baton::engine {

// In bytes, at one moment.
struct DeviceMemory {
  uint64_t total = 0;
  // What no process holds.
  uint64_t free = 0;
  // What this process holds: its allocations, and what the driver keeps for it as far as that can be told.
  uint64_t own = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_DEVICE_MEMORY_H_
