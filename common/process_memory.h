// What memory this process takes.
#ifndef BATON_COMMON_PROCESS_MEMORY_H_
#define BATON_COMMON_PROCESS_MEMORY_H_

#include <cstdint>

namespace baton {

// Resident bytes that no file backs, shared memory included: heap, packed weights, KV pools. The pages of mapped model
// files are not among them, nor those of the program. 0 when the system does not tell.
int64_t ResidentBytesBesidesFiles();

}  // namespace baton

#endif  // BATON_COMMON_PROCESS_MEMORY_H_
