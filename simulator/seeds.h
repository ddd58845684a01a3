// Which seeds the simulator's tests run, by environment variables.
#ifndef BATON_SIMULATOR_SEEDS_H_
#define BATON_SIMULATOR_SEEDS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "common/testing/slow_build.h"

namespace baton::simulator {

inline uint64_t SeedsOr(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// How many routers every run has; 0: as its seed draws.
inline int ForcedRouters() { return static_cast<int>(SeedsOr("BATON_SIM_ROUTERS", 0)); }

// How many of a hundred requests of every run outlive their calls; below 0: as its seed draws.
inline int ForcedKept() {
  return std::getenv("BATON_SIM_KEPT") == nullptr ? -1 : static_cast<int>(SeedsOr("BATON_SIM_KEPT", 0));
}

// CI draws another base for every commit.
inline uint64_t BaseSeed() { return std::max<uint64_t>(SeedsOr("BATON_SIM_BASE_SEED", 1), 1); }

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_SEEDS_H_
