// Shared memory of a block with the state of each byte.
#ifndef BATON_TESTS_PTX_SHARED_MEMORY_H_
#define BATON_TESTS_PTX_SHARED_MEMORY_H_

#include <cstdint>
#include <vector>

#include "tests/ptx/program.h"

namespace baton::ptx {

// A thread of the block and the value of its warp's clock: clock << 10 | thread. 0 is none.
using Stamp = uint32_t;
inline constexpr int kThreadBits = 10;

struct SharedByte {
  Stamp write = 0;
  // The last atomic or volatile write.
  Stamp strong = 0;
  Stamp read = 0;
  Stamp read_of_lane = 0;
  Stamp read_of_warp = 0;
};

struct SharedMemory {
  // Data and states begin at address kSharedBase.
  std::vector<uint8_t> data;
  std::vector<uint8_t> states;
  std::vector<SharedByte> accesses;
  // How many copies of cp.async to the byte have not been waited for.
  std::vector<uint8_t> pending;

  void Reset(const std::vector<uint8_t>& layout, uint32_t dynamic, bool races);
};

inline void SharedMemory::Reset(const std::vector<uint8_t>& layout, uint32_t dynamic, bool races) {
  states = layout;
  states.resize(layout.size() + dynamic, kUnwritten);
  data.assign(states.size(), 0xcd);
  pending.assign(states.size(), 0);
  accesses.assign(races ? states.size() : 0, {});
}

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_SHARED_MEMORY_H_
