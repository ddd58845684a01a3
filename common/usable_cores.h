#ifndef BATON_COMMON_USABLE_CORES_H_
#define BATON_COMMON_USABLE_CORES_H_

namespace baton {

// How many cores the calling thread may use, at least 1: a container or a unit may have fewer than the machine.
int CountUsableCores();

}  // namespace baton

#endif  // BATON_COMMON_USABLE_CORES_H_
