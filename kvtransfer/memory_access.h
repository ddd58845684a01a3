// The memory of a transport's region where that is not simply host memory, and the streams on which a library moves it:
// what CUDA has for a device's memory, and what a stand-in of such a library has for the host's.
#ifndef BATON_KVTRANSFER_MEMORY_ACCESS_H_
#define BATON_KVTRANSFER_MEMORY_ACCESS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::kvtransfer {

// Any thread may call it.
class MemoryAccess {
 public:
  // A cudaStream_t, or what stands in for one: operations on it run in the order in which they were issued.
  using Stream = void*;

  virtual ~MemoryAccess() = default;

  // Zeroed, 4096-byte aligned, and lives as long as this object; called once. RESOURCE_EXHAUSTED when there is no room.
  virtual absl::StatusOr<uint8_t*> Allocate(size_t bytes) = 0;

  virtual absl::StatusOr<Stream> CreateStream() = 0;
  // Calls `function` with `argument` on a thread of the memory's, once all that was issued on the stream before has
  // ended, well or not. The function neither blocks nor calls this object.
  virtual absl::Status CallWhenDone(Stream stream, void (*function)(void*), void* argument) = 0;
  // Waits until all that was issued has ended, and destroys the stream.
  virtual void DestroyStream(Stream stream) = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_MEMORY_ACCESS_H_
