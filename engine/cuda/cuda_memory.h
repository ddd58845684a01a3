// The memory of a CUDA device for transports: what common/memory_access.h says, by the driver. A stream is a CUstream,
// so that libraries such as NCCL may take it. Other processes of the machine open the region by CUDA IPC.
#ifndef BATON_ENGINE_CUDA_CUDA_MEMORY_H_
#define BATON_ENGINE_CUDA_CUDA_MEMORY_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/memory_access.h"
#include "engine/cuda/device.h"

namespace baton::engine::cuda {

// Its errors are those of the driver's calls; a failure of the device shows in what is called next. Copies from the
// host read pageable memory: the driver takes the bytes before it returns.
class CudaMemory final : public MemoryAccess {
 public:
  // The device outlives this object.
  explicit CudaMemory(const Device& device) : device_(device) {}

  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Staging>> AllocateStaging(size_t bytes) override;
  absl::StatusOr<Stream> CreateStream() override;
  absl::Status CopyIn(uint8_t* to, absl::Span<const uint8_t> from, Stream stream) override;
  absl::Status CopyOut(absl::Span<uint8_t> to, const uint8_t* from, Stream stream) override;
  absl::Status CallWhenDone(Stream stream, void (*function)(void*), void* argument) override;
  absl::Status Synchronize(Stream stream) override;
  void DestroyStream(Stream stream) override;
  Kind kind() const override { return Kind::kCuda; }
  void UseOnThisThread() override { device_.MakeCurrent(); }
  absl::StatusOr<std::string> Share() override;
  absl::StatusOr<std::unique_ptr<Opened>> Open(std::string_view share) override;
  absl::Status CopyWithin(uint8_t* to, const uint8_t* from, size_t bytes, Stream stream) override;

 private:
  class OpenedHandle;
  class OwnRegion;

  const Device& device_;
  DeviceBuffer region_;
  // What Share has returned; empty before.
  std::string share_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_CUDA_MEMORY_H_
