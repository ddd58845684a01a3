// Device memory between processes: cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "tests/ptx/driver_functions.h"
#include "tests/ptx/emulated_device.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

// What a CUipcMemHandle holds.
struct Handle {
  uint64_t magic = kMagic;
  int64_t pid = 0;
  int64_t fd = 0;
  uint64_t size = 0;
  // The base of the allocation, whose addresses are never used again in its process.
  CUdeviceptr base = 0;

  static constexpr uint64_t kMagic = 0x317063692d787470;  // "ptx-icp1"
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

// The file's name, by which a descriptor that means another file by now is noticed.
std::string NameOf(const Handle& handle) { return Text("emulated-cuda-", handle.pid, "-", handle.base); }

// The file has the bytes, and behind them the marks of what was written.
size_t HalfBytes(uint64_t size) { return (size + 4095) / 4096 * 4096; }

bool MapFile(int fd, uint64_t size, AllocatedBytes* data, AllocatedBytes* written) {
  const size_t half = HalfBytes(size);
  void* const mapped = mmap(nullptr, 2 * half, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return false;
  auto* const first = static_cast<uint8_t*>(mapped);
  *data = AllocatedBytes(first, FreeBytes{.mapped = half});
  *written = AllocatedBytes(first + half, FreeBytes{.mapped = half});
  return true;
}

// Moves the allocation into a file.
CUresult Export(Allocation& allocation, const Handle& handle) {
  const int fd = memfd_create(NameOf(handle).c_str(), MFD_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::shared_ptr<const int> file(new int(fd), [](const int* one) {
    close(*one);
    delete one;
  });
  AllocatedBytes data;
  AllocatedBytes written;
  if (ftruncate(fd, static_cast<off_t>(2 * HalfBytes(allocation.size))) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!MapFile(fd, allocation.size, &data, &written)) return CUDA_ERROR_MAP_FAILED;
  std::memcpy(data.get(), allocation.data.get(), allocation.size);
  std::memcpy(written.get(), allocation.written.get(), allocation.size);
  allocation.data = std::move(data);
  allocation.written = std::move(written);
  allocation.exported = file;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI GetHandle(CUipcMemHandle* result, CUdeviceptr address) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult ready = device.Ready(); ready != CUDA_SUCCESS) return ready;
  Allocation* const allocation = device.Range(address, 1);
  if (result == nullptr || allocation == nullptr || allocation->base != address || allocation->of_module ||
      allocation->opens > 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Handle handle{.pid = getpid(), .size = allocation->size, .base = address};
  if (allocation->exported == nullptr) {
    if (const CUresult exported = Export(*allocation, handle); exported != CUDA_SUCCESS) return exported;
  }
  handle.fd = *allocation->exported;
  *result = {};
  std::memcpy(result->reserved, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

// The file of another process. Negative when it is not there any more, or is another one by now.
int OpenFile(const Handle& handle) {
  const std::string path = Text("/proc/", handle.pid, "/fd/", handle.fd);
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  if (length <= 0 ||
      std::string(target, static_cast<size_t>(length)) != Text("/memfd:", NameOf(handle), " (deleted)")) {
    return -1;
  }
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

CUresult CUDAAPI OpenHandle(CUdeviceptr* address, CUipcMemHandle shown, unsigned flags) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult ready = device.Ready(); ready != CUDA_SUCCESS) return ready;
  if (address == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  Handle handle;
  std::memcpy(&handle, shown.reserved, sizeof(handle));
  if (handle.magic != Handle::kMagic || handle.size == 0) return CUDA_ERROR_INVALID_HANDLE;
  // A process opens no memory of its own.
  if (handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::string key(shown.reserved, sizeof(shown.reserved));
  if (const auto found = device.opened.find(key); found != device.opened.end()) {
    ++device.Range(found->second, 1)->opens;
    *address = found->second;
    return CUDA_SUCCESS;
  }
  const int fd = OpenFile(handle);
  if (fd < 0) return CUDA_ERROR_MAP_FAILED;
  struct stat file {};
  AllocatedBytes data;
  AllocatedBytes written;
  const bool mapped = fstat(fd, &file) == 0 && static_cast<size_t>(file.st_size) == 2 * HalfBytes(handle.size) &&
                      MapFile(fd, handle.size, &data, &written);
  close(fd);
  if (!mapped) return CUDA_ERROR_MAP_FAILED;
  *address = device.memory.Adopt(handle.size, std::move(data), std::move(written)).base;
  device.opened[key] = *address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI CloseHandle(CUdeviceptr address) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult ready = device.Ready(); ready != CUDA_SUCCESS) return ready;
  Allocation* const allocation = device.Range(address, 1);
  if (allocation == nullptr || allocation->base != address || allocation->opens == 0) return CUDA_ERROR_INVALID_VALUE;
  if (allocation->opens > 1) {
    --allocation->opens;
    return CUDA_SUCCESS;
  }
  device.memory.Release(*allocation);
  std::erase_if(device.opened, [address](const auto& one) { return one.second == address; });
  return CUDA_SUCCESS;
}

}  // namespace

void AddIpcFunctions(engine::cuda::DriverApi& api) {
  api.ipc_get_handle = &GetHandle;
  api.ipc_open_handle = &OpenHandle;
  api.ipc_close_handle = &CloseHandle;
}

}  // namespace baton::ptx
