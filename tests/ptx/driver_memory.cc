// Allocations, copies, memsets.
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "tests/ptx/driver_functions.h"
#include "tests/ptx/emulated_device.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

CUresult CUDAAPI MemoryInfo(size_t* free, size_t* total) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *total = device.memory.limit();
  *free = device.memory.limit() - std::min(device.memory.limit(), device.memory.used());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI MemoryAlloc(CUdeviceptr* address, size_t bytes) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  if (const CUresult result = device.ForbiddenInCapture(); result != CUDA_SUCCESS) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Allocation* allocation = device.memory.Allocate(bytes);
  if (allocation == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = allocation->base;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI MemoryFree(CUdeviceptr address) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  if (const CUresult result = device.ForbiddenInCapture(); result != CUDA_SUCCESS) return result;
  if (address == 0) return CUDA_SUCCESS;
  Allocation* allocation = device.Range(address, 1);
  if (allocation == nullptr || allocation->base != address || allocation->of_module || allocation->opens > 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  device.memory.Release(*allocation);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI HostAlloc(void** memory, size_t bytes, unsigned) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  if (memory == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  auto bytes_of_host = std::make_unique<uint8_t[]>(bytes);
  *memory = bytes_of_host.get();
  device.host[*memory] = std::move(bytes_of_host);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI HostFree(void* memory) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  return memory == nullptr || device.host.erase(memory) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult DoCopyToDevice(EmulatedDevice& device, CUdeviceptr to, const void* from, size_t bytes) {
  Allocation* allocation = device.Range(to, bytes);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(allocation->data.get() + (to - allocation->base), from, bytes);
  std::memset(allocation->written.get() + (to - allocation->base), kWritten, bytes);
  return CUDA_SUCCESS;
}

CUresult DoCopyToHost(EmulatedDevice& device, void* to, CUdeviceptr from, size_t bytes) {
  Allocation* allocation = device.Range(from, bytes);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t offset = from - allocation->base;
  std::memcpy(to, allocation->data.get() + offset, bytes);
  const auto* unwritten =
      static_cast<const uint8_t*>(std::memchr(allocation->written.get() + offset, kUnwritten, bytes));
  if (unwritten != nullptr && device.options.check_copies) {
    Finding finding;
    finding.kind = FindingKind::kUninitialized;
    finding.kernel = "copy_to_host";
    finding.message = Text("byte ", unwritten - (allocation->written.get() + offset), " of ", bytes, " at byte ",
                           offset, " of an allocation of ", allocation->size, " bytes was never written");
    device.findings.Add(std::move(finding));
    device.failed = true;
  }
  return CUDA_SUCCESS;
}

CUresult DoCopyOnDevice(EmulatedDevice& device, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  Allocation* target = device.Range(to, bytes);
  const Allocation* source = device.Range(from, bytes);
  if (target == nullptr || source == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memmove(target->data.get() + (to - target->base), source->data.get() + (from - source->base), bytes);
  std::memmove(target->written.get() + (to - target->base), source->written.get() + (from - source->base), bytes);
  return CUDA_SUCCESS;
}

CUresult DoSetBytes(EmulatedDevice& device, CUdeviceptr to, unsigned char value, size_t bytes) {
  Allocation* allocation = device.Range(to, bytes);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memset(allocation->data.get() + (to - allocation->base), value, bytes);
  std::memset(allocation->written.get() + (to - allocation->base), kWritten, bytes);
  return CUDA_SUCCESS;
}

// The ranges are checked now, and again when a graph replays the operation.
template <class Node>
CUresult SubmitChecked(CUstream stream, size_t bytes, std::initializer_list<CUdeviceptr> ranges, const void* host,
                       bool has_host, Node node) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  if (bytes == 0) return CUDA_SUCCESS;
  if (has_host && host == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const CUdeviceptr range : ranges) {
    if (device.Range(range, bytes) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  return device.Submit(stream, [&device, node] { return node(device); });
}

// Whether what is issued on the stream has to wait.
bool IsBusy(CUstream handle) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  Stream* stream = nullptr;
  return device.FindStream(handle, &stream) == CUDA_SUCCESS && stream != nullptr && stream->is_busy();
}

// A copy that has to wait takes the host's bytes now, as CUDA does with those that are not pinned.
CUresult CUDAAPI CopyToDevice(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (from != nullptr && IsBusy(stream)) {
    const auto* const first = static_cast<const uint8_t*>(from);
    const auto taken = std::make_shared<const std::vector<uint8_t>>(first, first + bytes);
    return SubmitChecked(stream, bytes, {to}, from, true,
                         [=](EmulatedDevice& device) { return DoCopyToDevice(device, to, taken->data(), bytes); });
  }
  return SubmitChecked(stream, bytes, {to}, from, true,
                       [=](EmulatedDevice& device) { return DoCopyToDevice(device, to, from, bytes); });
}

CUresult CUDAAPI CopyToHost(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return SubmitChecked(stream, bytes, {from}, to, true,
                       [=](EmulatedDevice& device) { return DoCopyToHost(device, to, from, bytes); });
}

CUresult CUDAAPI CopyOnDevice(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return SubmitChecked(stream, bytes, {to, from}, nullptr, false,
                       [=](EmulatedDevice& device) { return DoCopyOnDevice(device, to, from, bytes); });
}

CUresult CUDAAPI SetBytes(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  return SubmitChecked(stream, bytes, {to}, nullptr, false,
                       [=](EmulatedDevice& device) { return DoSetBytes(device, to, value, bytes); });
}

}  // namespace

void AddMemoryFunctions(engine::cuda::DriverApi& api) {
  api.memory_info = &MemoryInfo;
  api.memory_alloc = &MemoryAlloc;
  api.memory_free = &MemoryFree;
  api.host_alloc = &HostAlloc;
  api.host_free = &HostFree;
  api.copy_to_device_async = &CopyToDevice;
  api.copy_to_host_async = &CopyToHost;
  api.copy_on_device_async = &CopyOnDevice;
  api.set_bytes_async = &SetBytes;
}

}  // namespace baton::ptx
