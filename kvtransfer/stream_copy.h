// A copy past the caches, for KV that this core will not read soon.
#ifndef BATON_KVTRANSFER_STREAM_COPY_H_
#define BATON_KVTRANSFER_STREAM_COPY_H_

#include <cstddef>
#include <cstdint>

namespace baton::kvtransfer {

// As memcpy, with stores that do not read the destination's lines first: two thirds of the memory traffic. The C
// library does so only for copies of many megabytes at once. The bytes are visible to other threads as after memcpy.
void StreamCopy(uint8_t* to, const uint8_t* from, size_t bytes);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_STREAM_COPY_H_
