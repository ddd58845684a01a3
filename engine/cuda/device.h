// A CUDA device as the engine uses it: a context, modules of kernels, memory, streams and graphs, over a table of the
// driver's functions.
//
// Whatever can fail while a model is loaded returns a status. What fails later, in a step, ends the process: a step has
// no status, a context is unusable after most errors, and a worker that dies is what the cluster knows how to replace.
// Device::Require logs the one line that says what happened and what to do, and aborts.
#ifndef BATON_ENGINE_CUDA_DEVICE_H_
#define BATON_ENGINE_CUDA_DEVICE_H_

#include <cuda.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cuda/driver_api.h"
#include "engine/device_memory.h"

namespace baton::engine::cuda {

struct LaunchShape {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  uint32_t threads = 1;
  // Bytes of dynamic shared memory.
  uint32_t shared_bytes = 0;
};

class Stream;

// Calls may come from any thread, one at a time for each stream.
class Device {
 public:
  // Each image is a cubin, a fat binary or PTX with its closing zero. `api` outlives the device. NOT_FOUND when there
  // is no such device, FAILED_PRECONDITION when it cannot run an image. `overlaps`: see below.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const DriverApi& api, int ordinal,
                                                      absl::Span<const void* const> images, bool overlaps = true);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DriverApi& api() const { return api_; }
  // As the driver names it, and its compute capability: 90 for 9.0.
  const std::string& name() const { return name_; }
  int capability() const { return capability_; }
  int multiprocessors() const { return multiprocessors_; }
  // Whether a launch may begin while the kernel before it in its stream still runs (programmatic dependent launch).
  // Only where it was not forbidden and every kernel waits for that by itself, which those compiled for sm_90 and later
  // do.
  bool overlaps() const { return overlaps_; }

  // The driver does not say what it keeps for this process alone. What is in use beyond the process's allocations
  // counts as that, up to kMostDriverBytes; more belongs to other processes.
  static constexpr uint64_t kMostDriverBytes = uint64_t{1} << 30;
  absl::StatusOr<DeviceMemory> Memory() const;

  // NOT_FOUND. The kernel may then be launched with up to `shared_bytes` of dynamic shared memory.
  absl::StatusOr<CUfunction> Kernel(const char* name, int shared_bytes) const;

  // Makes the device's context the calling thread's. Every function here does so by itself.
  void MakeCurrent() const;
  // The same where memory is returned: the process may be on its way out, and no answer matters.
  void TryMakeCurrent() const { static_cast<void>(api_.context_set_current(context_)); }
  absl::Status Check(CUresult result, const char* what) const { return DriverStatus(api_, result, what); }
  // Ends the process, with one line in the log that says what can be done, when a driver's call has failed.
  void Require(CUresult result, const char* what) const;

 private:
  friend class DeviceBuffer;

  Device(const DriverApi& api, int ordinal, bool overlaps) : api_(api), ordinal_(ordinal), overlaps_(overlaps) {}
  absl::Status Start();
  absl::Status LoadImage(const void* image);
  absl::StatusOr<int> Attribute(CUdevice_attribute attribute) const;

  const DriverApi& api_;
  const int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::vector<CUmodule> modules_;
  std::string name_;
  int capability_ = 0;
  int multiprocessors_ = 0;
  // Cleared by Kernel for one that does not wait.
  mutable std::atomic<bool> overlaps_;
  // Bytes in DeviceBuffers.
  mutable std::atomic<uint64_t> allocated_ = 0;
};

// Memory of a device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // RESOURCE_EXHAUSTED. The bytes are not set.
  static absl::StatusOr<DeviceBuffer> Allocate(const Device& device, size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  size_t bytes() const { return bytes_; }
  CUdeviceptr address() const { return address_; }
  // An address of the device.
  template <typename T>
  T* at(size_t offset = 0) const {
    return std::bit_cast<T*>(address_ + offset);
  }

 private:
  const Device* device_ = nullptr;
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
};

// Memory of the host that copies read and write without a detour.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static absl::StatusOr<PinnedBuffer> Allocate(const Device& device, size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  size_t bytes() const { return bytes_; }
  template <typename T>
  T* at(size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<uint8_t*>(data_) + offset);
  }

 private:
  const Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// What was captured from a stream, ready to be launched as often as wanted.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept { *this = std::move(other); }
  Graph& operator=(Graph&& other) noexcept;

  bool empty() const { return exec_ == nullptr; }

 private:
  friend class Stream;

  const Device* device_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

// A moment in a stream's work.
class Event {
 public:
  Event() = default;
  static absl::StatusOr<Event> Create(const Device& device);
  ~Event();
  Event(Event&& other) noexcept { *this = std::move(other); }
  Event& operator=(Event&& other) noexcept;

  // The moment at which the stream has done all that it was given so far. No other thread waits for the event.
  void Record(const Stream& stream) const;
  // Waits for the moment that was recorded last.
  void Synchronize() const;

 private:
  const Device* device_ = nullptr;
  CUevent event_ = nullptr;
};

// Work in order. Nothing here waits for it but Synchronize.
class Stream {
 public:
  static absl::StatusOr<Stream> Create(const Device& device);
  ~Stream();
  Stream(Stream&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;

  void CopyToDevice(CUdeviceptr to, const void* from, size_t bytes) const;
  void CopyToHost(void* to, CUdeviceptr from, size_t bytes) const;
  void SetBytes(CUdeviceptr to, uint8_t value, size_t bytes) const;
  // `params` is copied by the call.
  template <typename Params>
  void Launch(CUfunction kernel, const LaunchShape& shape, const Params& params) const {
    void* arguments[] = {const_cast<Params*>(&params)};
    LaunchKernel(kernel, shape, arguments);
  }
  void Synchronize() const;

  // What the calling thread launches in between becomes a graph and does not run.
  void BeginCapture() const;
  Graph EndCapture() const;
  void Launch(const Graph& graph) const;

 private:
  friend class Event;

  Stream(const Device& device, CUstream stream) : device_(&device), stream_(stream) {}
  void LaunchKernel(CUfunction kernel, const LaunchShape& shape, void** arguments) const;

  const Device* device_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_DEVICE_H_
