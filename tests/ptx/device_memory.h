// Memory of the emulated device: allocations far apart, at addresses that no host pointer has, which are never used
// again. One thread allocates and frees; reading is for many.
#ifndef BATON_TESTS_PTX_DEVICE_MEMORY_H_
#define BATON_TESTS_PTX_DEVICE_MEMORY_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

namespace baton::ptx {

// Not canonical on x86-64: who follows one as a host pointer faults.
inline constexpr uint64_t kDeviceBase = 0x00D0'0000'0000'0000;
inline constexpr uint64_t kSharedWindow = 0x00E0'0000'0000'0000;
inline constexpr uint64_t kLocalWindow = 0x00E1'0000'0000'0000;
inline constexpr uint64_t kParamWindow = 0x00E2'0000'0000'0000;
inline constexpr uint64_t kWindowMask = 0xFFFF'0000'0000'0000;

// Who last touched a byte of global memory in a launch.
struct GlobalAccess {
  uint32_t launch = 0;
  // Number of the block, from 1; kSeveral.
  uint32_t writer = 0;
  uint32_t reader = 0;
  static constexpr uint32_t kSeveral = ~0U;
};

// Frees bytes of the heap, or those of a mapping where that has a size.
struct FreeBytes {
  size_t mapped = 0;
  void operator()(uint8_t* bytes) const { mapped == 0 ? std::free(bytes) : static_cast<void>(munmap(bytes, mapped)); }
};
using AllocatedBytes = std::unique_ptr<uint8_t, FreeBytes>;

struct Allocation {
  uint64_t base = 0;
  uint64_t size = 0;
  bool freed = false;
  bool read_only = false;
  // Belongs to a module, so that memory_free does not take it.
  bool of_module = false;
  AllocatedBytes data;
  // For each byte 1 where it was written.
  AllocatedBytes written;
  // The file in which its bytes lie and by which other processes open it; null before it is exported.
  std::shared_ptr<const int> exported;
  // Where it is another process's: how often it is open here. Else 0.
  int opens = 0;
  // Only where races between blocks are looked for.
  std::vector<GlobalAccess> accesses;

  bool Contains(uint64_t address, uint64_t bytes) const {
    return !freed && address - base < size && bytes <= size - (address - base);
  }
};

class DeviceMemory {
 public:
  // Null where `size` is 0 or more than is free.
  Allocation* Allocate(uint64_t size);
  // Memory of another process, at an address of its own. It takes nothing of what is free here.
  Allocation& Adopt(uint64_t size, AllocatedBytes data, AllocatedBytes written);
  void Release(Allocation& allocation);
  // The allocation at or before the address, freed ones included. Null where there is none.
  Allocation* Find(uint64_t address);

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_; }
  void set_limit(uint64_t bytes) { limit_ = bytes; }
  size_t Count() const;
  // Makes room for GlobalAccess of every byte.
  void TrackAccesses();

 private:
  uint64_t TakeAddresses(uint64_t size);

  // In ascending order of base.
  std::deque<Allocation> allocations_;
  uint64_t next_ = kDeviceBase + 0x200;
  uint64_t used_ = 0;
  uint64_t limit_ = uint64_t{8} << 30;
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_DEVICE_MEMORY_H_
