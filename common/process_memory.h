// How much memory this process uses.
#ifndef BATON_COMMON_PROCESS_MEMORY_H_
#define BATON_COMMON_PROCESS_MEMORY_H_

#include <cstdint>

namespace baton {

// Resident bytes that no file backs: heap, packed weights, KV pools, shared memory. Pages of mapped model files and of
// the program do not count. 0 when the system does not tell.
int64_t ResidentBytesBesidesFiles();

}  // namespace baton

#endif  // BATON_COMMON_PROCESS_MEMORY_H_
