#include "tests/ptx/device_memory.h"

#include <algorithm>
#include <utility>

namespace baton::ptx {

// Between allocations lie 4 GiB. The alignment is 512 bytes and no more, so that who needs more is found.
uint64_t DeviceMemory::TakeAddresses(uint64_t size) {
  constexpr uint64_t kGap = uint64_t{4} << 30;
  const uint64_t base = next_;
  next_ += (size + kGap + 1023) / 1024 * 1024;
  return base;
}

Allocation* DeviceMemory::Allocate(uint64_t size) {
  if (size == 0 || size > limit_ - std::min(used_, limit_)) return nullptr;
  Allocation allocation;
  allocation.size = size;
  allocation.data.reset(static_cast<uint8_t*>(std::calloc(size, 1)));
  allocation.written.reset(static_cast<uint8_t*>(std::calloc(size, 1)));
  if (allocation.data == nullptr || allocation.written == nullptr) return nullptr;
  allocation.base = TakeAddresses(size);
  used_ += size;
  return &allocations_.emplace_back(std::move(allocation));
}

Allocation& DeviceMemory::Adopt(uint64_t size, AllocatedBytes data, AllocatedBytes written) {
  Allocation allocation;
  allocation.base = TakeAddresses(size);
  allocation.size = size;
  allocation.data = std::move(data);
  allocation.written = std::move(written);
  allocation.opens = 1;
  return allocations_.emplace_back(std::move(allocation));
}

void DeviceMemory::Release(Allocation& allocation) {
  if (allocation.opens == 0) used_ -= allocation.size;
  allocation.freed = true;
  allocation.exported.reset();
  allocation.data.reset();
  allocation.written.reset();
  allocation.accesses = {};
}

Allocation* DeviceMemory::Find(uint64_t address) {
  const auto after = std::upper_bound(allocations_.begin(), allocations_.end(), address,
                                      [](uint64_t at, const Allocation& allocation) { return at < allocation.base; });
  return after == allocations_.begin() ? nullptr : &*std::prev(after);
}

size_t DeviceMemory::Count() const {
  return static_cast<size_t>(std::count_if(allocations_.begin(), allocations_.end(),
                                           [](const Allocation& one) { return !one.freed && !one.of_module; }));
}

void DeviceMemory::TrackAccesses() {
  for (Allocation& allocation : allocations_) {
    if (!allocation.freed && !allocation.read_only) allocation.accesses.resize(allocation.size);
  }
}

}  // namespace baton::ptx
