#include "engine/cuda/cuda_memory.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"

namespace baton::engine::cuda {
namespace {

class PinnedStaging final : public MemoryAccess::Staging {
 public:
  explicit PinnedStaging(PinnedBuffer buffer) : buffer_(std::move(buffer)) {}
  uint8_t* bytes() override { return buffer_.at<uint8_t>(); }

 private:
  const PinnedBuffer buffer_;
};

CUstream StreamOf(MemoryAccess::Stream stream) { return static_cast<CUstream>(stream); }
CUdeviceptr AddressOf(const uint8_t* bytes) { return std::bit_cast<CUdeviceptr>(bytes); }

}  // namespace

// Another process's region. The driver counts how often it was opened.
class CudaMemory::OpenedHandle final : public Opened {
 public:
  OpenedHandle(const Device& device, CUdeviceptr base) : device_(device), base_(base) {}
  ~OpenedHandle() override {
    device_.TryMakeCurrent();
    static_cast<void>(device_.api().ipc_close_handle(base_));
  }
  const uint8_t* base() const override { return std::bit_cast<const uint8_t*>(base_); }

 private:
  const Device& device_;
  const CUdeviceptr base_;
};

// This process's own, which CUDA IPC does not open.
class CudaMemory::OwnRegion final : public Opened {
 public:
  explicit OwnRegion(const uint8_t* base) : base_(base) {}
  const uint8_t* base() const override { return base_; }

 private:
  const uint8_t* const base_;
};

absl::StatusOr<uint8_t*> CudaMemory::Allocate(size_t bytes) {
  BATON_CHECK(region_.bytes() == 0) << "the region is allocated once";
  BATON_ASSIGN_OR_RETURN(region_, DeviceBuffer::Allocate(device_, bytes));
  BATON_ASSIGN_OR_RETURN(const cuda::Stream stream, cuda::Stream::Create(device_));
  stream.SetBytes(region_.address(), 0, bytes);
  stream.Synchronize();
  return region_.at<uint8_t>();
}

absl::StatusOr<std::unique_ptr<MemoryAccess::Staging>> CudaMemory::AllocateStaging(size_t bytes) {
  BATON_ASSIGN_OR_RETURN(PinnedBuffer buffer, PinnedBuffer::Allocate(device_, bytes));
  return std::make_unique<PinnedStaging>(std::move(buffer));
}

absl::StatusOr<MemoryAccess::Stream> CudaMemory::CreateStream() {
  device_.MakeCurrent();
  CUstream stream = nullptr;
  BATON_RETURN_IF_ERROR(device_.Check(device_.api().stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return stream;
}

absl::Status CudaMemory::CopyIn(uint8_t* to, absl::Span<const uint8_t> from, Stream stream) {
  device_.MakeCurrent();
  return device_.Check(device_.api().copy_to_device_async(AddressOf(to), from.data(), from.size(), StreamOf(stream)),
                       "cuMemcpyHtoDAsync");
}

absl::Status CudaMemory::CopyOut(absl::Span<uint8_t> to, const uint8_t* from, Stream stream) {
  device_.MakeCurrent();
  return device_.Check(device_.api().copy_to_host_async(to.data(), AddressOf(from), to.size(), StreamOf(stream)),
                       "cuMemcpyDtoHAsync");
}

absl::Status CudaMemory::CallWhenDone(Stream stream, void (*function)(void*), void* argument) {
  device_.MakeCurrent();
  return device_.Check(device_.api().launch_host_function(StreamOf(stream), function, argument), "cuLaunchHostFunc");
}

absl::Status CudaMemory::Synchronize(Stream stream) {
  device_.MakeCurrent();
  return device_.Check(device_.api().stream_synchronize(StreamOf(stream)), "cuStreamSynchronize");
}

void CudaMemory::DestroyStream(Stream stream) {
  device_.TryMakeCurrent();
  static_cast<void>(device_.api().stream_synchronize(StreamOf(stream)));
  static_cast<void>(device_.api().stream_destroy(StreamOf(stream)));
}

absl::StatusOr<std::string> CudaMemory::Share() {
  BATON_CHECK(region_.bytes() > 0) << "Allocate comes first";
  device_.MakeCurrent();
  CUipcMemHandle handle{};
  const absl::Status status =
      device_.Check(device_.api().ipc_get_handle(&handle, region_.address()), "cuIpcGetMemHandle");
  if (!status.ok()) return absl::UnavailableError(status.message());
  share_.assign(handle.reserved, sizeof(handle.reserved));
  return share_;
}

absl::StatusOr<std::unique_ptr<MemoryAccess::Opened>> CudaMemory::Open(std::string_view share) {
  if (!share_.empty() && share == share_) return std::make_unique<OwnRegion>(region_.at<uint8_t>());
  CUipcMemHandle handle{};
  if (share.size() != sizeof(handle.reserved)) {
    return absl::UnavailableError(absl::StrCat("a handle of CUDA IPC of ", share.size(), " bytes"));
  }
  std::memcpy(handle.reserved, share.data(), share.size());
  device_.MakeCurrent();
  CUdeviceptr base = 0;
  const absl::Status status = device_.Check(
      device_.api().ipc_open_handle(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "cuIpcOpenMemHandle");
  if (!status.ok()) return absl::UnavailableError(status.message());
  return std::make_unique<OpenedHandle>(device_, base);
}

absl::Status CudaMemory::CopyWithin(uint8_t* to, const uint8_t* from, size_t bytes, Stream stream) {
  device_.MakeCurrent();
  return device_.Check(device_.api().copy_on_device_async(AddressOf(to), AddressOf(from), bytes, StreamOf(stream)),
                       "cuMemcpyDtoDAsync");
}

}  // namespace baton::engine::cuda
