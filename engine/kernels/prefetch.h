// Asks for memory before it is read. Internal linkage: files of every instruction set use it.
#ifndef BATON_ENGINE_KERNELS_PREFETCH_H_
#define BATON_ENGINE_KERNELS_PREFETCH_H_

#include <cstdint>

#include "engine/kernels/unroll.h"

namespace baton::engine::kernels {
namespace {

inline constexpr int kCacheLine = 64;

// For streams from memory: the first-level cache has too few requests under way to keep the memory busy.
BATON_INLINE void PrefetchToSecondLevel(const uint8_t* line) { __builtin_prefetch(line, 0, 2); }

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_PREFETCH_H_
