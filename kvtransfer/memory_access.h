// The memory of a transport's region where that is not simply host memory, and the streams on which a library moves it:
// what CUDA has for a device's memory, and what a stand-in of such a library has for the host's.
#ifndef BATON_KVTRANSFER_MEMORY_ACCESS_H_
#define BATON_KVTRANSFER_MEMORY_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton::kvtransfer {

// Any thread may call it.
class MemoryAccess {
 public:
  // A cudaStream_t, or what stands in for one: operations on it run in the order in which they were issued.
  using Stream = void*;

  // Host memory from which a device copies at full speed.
  class Staging {
   public:
    virtual ~Staging() = default;
    virtual uint8_t* bytes() = 0;
  };

  virtual ~MemoryAccess() = default;

  // Zeroed, 4096-byte aligned, and lives as long as this object; called once. RESOURCE_EXHAUSTED when there is no room.
  virtual absl::StatusOr<uint8_t*> Allocate(size_t bytes) = 0;

  virtual absl::StatusOr<std::unique_ptr<Staging>> AllocateStaging(size_t bytes) = 0;

  virtual absl::StatusOr<Stream> CreateStream() = 0;
  // From the host, whose bytes may change when the call returns; they are here when the stream has come so far.
  virtual absl::Status CopyIn(uint8_t* to, absl::Span<const uint8_t> from, Stream stream) = 0;
  // To the host, preferably to Staging, when the stream has come so far.
  virtual absl::Status CopyOut(absl::Span<uint8_t> to, const uint8_t* from, Stream stream) = 0;
  // Calls `function` with `argument` on a thread of the memory's, once all that was issued on the stream before has
  // ended, well or not. The function neither blocks nor calls this object.
  virtual absl::Status CallWhenDone(Stream stream, void (*function)(void*), void* argument) = 0;
  // Waits until all that was issued has ended. An error when any of it failed.
  virtual absl::Status Synchronize(Stream stream) = 0;
  // Waits likewise, and destroys the stream.
  virtual void DestroyStream(Stream stream) = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_MEMORY_ACCESS_H_
