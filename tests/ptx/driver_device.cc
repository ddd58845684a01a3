// cuInit, errors, devices, contexts.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/ptx/driver_functions.h"
#include "tests/ptx/emulated_device.h"

namespace baton::ptx {
namespace {

thread_local CUcontext current_context = nullptr;

// There is one context. Nobody follows it.
CUcontext PrimaryContext() { return reinterpret_cast<CUcontext>(&EmulatedDevice::Get()); }

struct ErrorText {
  CUresult result;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_MAP_FAILED, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "the interpreter has findings"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted while capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture is invalidated"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "not the origin of the capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream did not join the origin"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "depends on the default stream"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in this state"},
};

CUresult TextOf(CUresult error, const char** text, const char* ErrorText::*member) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const ErrorText& one : kErrors) {
    if (one.result != error) continue;
    *text = one.*member;
    return CUDA_SUCCESS;
  }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI ErrorName(CUresult error, const char** text) { return TextOf(error, text, &ErrorText::name); }
CUresult CUDAAPI ErrorString(CUresult error, const char** text) { return TextOf(error, text, &ErrorText::text); }

CUresult CUDAAPI Init(unsigned flags) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  device.initialized = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI DriverVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult Initialized() {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult CUDAAPI DeviceCount(int* count) {
  if (const CUresult result = Initialized(); result != CUDA_SUCCESS) return result;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI DeviceGet(CUdevice* handle, int ordinal) {
  if (const CUresult result = Initialized(); result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *handle = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI DeviceName(char* name, int size, CUdevice handle) {
  if (const CUresult result = Initialized(); result != CUDA_SUCCESS) return result;
  if (name == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  constexpr std::string_view kName = "PTX interpreter";
  const size_t length = std::min(kName.size(), static_cast<size_t>(size - 1));
  std::memcpy(name, kName.data(), length);
  name[length] = '\0';
  return CUDA_SUCCESS;
}

constexpr std::pair<CUdevice_attribute, int> kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, kLanes},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, kSharedDefault},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kSharedOptIn},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, kSharedOptIn + 1024},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 4096},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
};

CUresult CUDAAPI DeviceAttribute(int* value, CUdevice_attribute attribute, CUdevice handle) {
  if (const CUresult result = Initialized(); result != CUDA_SUCCESS) return result;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  for (const auto& [name, known] : kAttributes) {
    if (name != attribute || value == nullptr) continue;
    *value = known;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI Retain(CUcontext* context, CUdevice handle) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (!device.initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++device.retained;
  *context = PrimaryContext();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI ReleaseContext(CUdevice handle) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (!device.initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (device.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --device.retained;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI SetCurrent(CUcontext context) {
  if (const CUresult result = Initialized(); result != CUDA_SUCCESS) return result;
  if (context != nullptr && context != PrimaryContext()) return CUDA_ERROR_INVALID_CONTEXT;
  current_context = context;
  return CUDA_SUCCESS;
}

}  // namespace

CUcontext CurrentContext() { return current_context; }

void AddDeviceFunctions(engine::cuda::DriverApi& api) {
  api.init = &Init;
  api.driver_version = &DriverVersion;
  api.error_name = &ErrorName;
  api.error_string = &ErrorString;
  api.device_count = &DeviceCount;
  api.device_get = &DeviceGet;
  api.device_name = &DeviceName;
  api.device_attribute = &DeviceAttribute;
  api.primary_context_retain = &Retain;
  api.primary_context_release = &ReleaseContext;
  api.context_set_current = &SetCurrent;
}

}  // namespace baton::ptx
