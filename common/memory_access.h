// The memory of a transport's region where that is not simply host memory, and the streams on which a library moves it:
// what CUDA has for a device's memory (engine/cuda/cuda_memory.h), and what a stand-in of such a library has for the
// host's. It is the one way by which transports reach such memory.
#ifndef BATON_COMMON_MEMORY_ACCESS_H_
#define BATON_COMMON_MEMORY_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton {

// Any thread may call it.
class MemoryAccess {
 public:
  // A cudaStream_t, or what stands in for one: operations on it run in the order in which they were issued.
  using Stream = void*;

  // What a library has to take the memory for that moves its bytes by itself, as UCX does over a network.
  enum class Kind : uint8_t { kHost, kCuda };

  // Host memory from which a device copies at full speed.
  class Staging {
   public:
    virtual ~Staging() = default;
    virtual uint8_t* bytes() = 0;
  };

  // The memory of another process of this machine, as CopyWithin may read it. Closed by its destructor, before this
  // object ends.
  class Opened {
   public:
    virtual ~Opened() = default;
    virtual const uint8_t* base() const = 0;
  };

  virtual ~MemoryAccess() = default;

  // Zeroed, aligned as all allocations of the memory are, and lives as long as this object; called once.
  // RESOURCE_EXHAUSTED when there is no room.
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

  virtual Kind kind() const { return Kind::kHost; }
  // Before such a library is called on a thread: makes current there what it looks for, as a device's context.
  virtual void UseOnThisThread() {}

  // These three are for memory that processes of one machine can open. UNAVAILABLE where it is of another kind, or
  // where whoever has to allow it refuses; the message says why.
  //
  // The allocation's name for other processes: any bytes, few enough for an address.
  virtual absl::StatusOr<std::string> Share() { return NotShared(); }
  // The allocation of that name. Its process may have ended since: then this fails, or the bytes are undefined.
  virtual absl::StatusOr<std::unique_ptr<Opened>> Open(std::string_view /*share*/) { return NotShared(); }
  // From this memory or an opened one, when the stream has come so far.
  virtual absl::Status CopyWithin(uint8_t* /*to*/, const uint8_t* /*from*/, size_t /*bytes*/, Stream /*stream*/) {
    return NotShared();
  }

 private:
  static absl::Status NotShared() { return absl::UnavailableError("this memory cannot be shared between processes"); }
};

}  // namespace baton

#endif  // BATON_COMMON_MEMORY_ACCESS_H_
