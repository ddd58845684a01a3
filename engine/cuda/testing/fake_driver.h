// A driver whose device memory is the host's, which runs no kernel and fails where a test says so. For the host's half
// of the CUDA engine.
#ifndef BATON_ENGINE_CUDA_TESTING_FAKE_DRIVER_H_
#define BATON_ENGINE_CUDA_TESTING_FAKE_DRIVER_H_

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/cuda/driver_api.h"

namespace baton::engine::cuda {

// What the fake driver does, and what it saw. One for the process.
struct FakeDriverState {
  int devices = 1;
  int capability = 75;
  // For which kernels were compiled.
  int kernel_capability = 75;
  size_t most_bytes = SIZE_MAX;
  // What the driver says of the device's memory.
  size_t total_bytes = 0;
  size_t free_bytes = 0;
  CUresult module_result = CUDA_SUCCESS;
  CUresult launch_result = CUDA_SUCCESS;
  int allocations = 0;
  // How often memory was taken, and a stream was waited for.
  int taken = 0;
  int waits = 0;
  // Copies to memory of the host that is not pinned, for which a driver makes the caller wait.
  int pageable_copies = 0;
  // Pinned memory, with its size.
  std::map<const char*, size_t> pinned = {};
  // Where what was copied to the device came from.
  std::vector<const void*> uploads = {};
  // The names of launched kernels, and "event" where one was recorded.
  std::vector<std::string> work = {};
  // Grids of launches, and of those among them that may begin early.
  std::vector<unsigned> launches = {};
  std::vector<unsigned> overlapping = {};
};

inline FakeDriverState& FakeDriver() {
  static FakeDriverState& state = *new FakeDriverState;
  return state;
}

inline CUresult FakeAllocate(size_t bytes, void** to) {
  if (bytes > FakeDriver().most_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  ++FakeDriver().allocations;
  ++FakeDriver().taken;
  *to = std::malloc(bytes);
  return CUDA_SUCCESS;
}

inline CUresult FakeFree(void* memory) {
  --FakeDriver().allocations;
  std::free(memory);
  return CUDA_SUCCESS;
}

inline CUresult FakeAllocatePinned(void** to, size_t bytes, unsigned /*flags*/) {
  const CUresult result = FakeAllocate(bytes, to);
  if (result == CUDA_SUCCESS) FakeDriver().pinned[static_cast<const char*>(*to)] = bytes;
  return result;
}

inline CUresult FakeFreePinned(void* memory) {
  FakeDriver().pinned.erase(static_cast<const char*>(memory));
  return FakeFree(memory);
}

inline bool IsFakePinned(const void* memory, size_t bytes) {
  const char* const first = static_cast<const char*>(memory);
  const auto behind = FakeDriver().pinned.upper_bound(first);
  if (behind == FakeDriver().pinned.begin()) return false;
  const auto& [begin, size] = *std::prev(behind);
  return first + bytes <= begin + size;
}

inline CUresult FakeCopy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return CUDA_SUCCESS;
}

inline void* FakePointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

inline void AddFakeDevice(DriverApi& api) {
  api.init = [](unsigned) { return CUDA_SUCCESS; };
  api.error_name = [](CUresult result, const char** name) {
    *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_TEST";
    return CUDA_SUCCESS;
  };
  api.error_string = [](CUresult, const char** text) {
    *text = "as the test wants";
    return CUDA_SUCCESS;
  };
  api.device_count = [](int* count) {
    *count = FakeDriver().devices;
    return CUDA_SUCCESS;
  };
  api.device_get = [](CUdevice* device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  api.device_name = [](char* name, int bytes, CUdevice) {
    std::strncpy(name, "Fake 100", static_cast<size_t>(bytes));
    return CUDA_SUCCESS;
  };
  api.device_attribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
    const bool is_minor = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
    *value = is_minor ? FakeDriver().capability % 10 : FakeDriver().capability / 10;
    return CUDA_SUCCESS;
  };
  api.primary_context_retain = [](CUcontext*, CUdevice) { return CUDA_SUCCESS; };
  api.primary_context_release = [](CUdevice) { return CUDA_SUCCESS; };
  api.context_set_current = [](CUcontext) { return CUDA_SUCCESS; };
}

inline void AddFakeMemory(DriverApi& api) {
  api.memory_info = [](size_t* free, size_t* total) {
    *free = FakeDriver().free_bytes;
    *total = FakeDriver().total_bytes;
    return CUDA_SUCCESS;
  };
  api.memory_alloc = [](CUdeviceptr* address, size_t bytes) {
    return FakeAllocate(bytes, reinterpret_cast<void**>(address));
  };
  api.memory_free = [](CUdeviceptr address) { return FakeFree(FakePointer(address)); };
  api.host_alloc = &FakeAllocatePinned;
  api.host_free = &FakeFreePinned;
  api.copy_to_device_async = [](CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    FakeDriver().uploads.push_back(from);
    return FakeCopy(FakePointer(to), from, bytes);
  };
  api.copy_to_host_async = [](void* to, CUdeviceptr from, size_t bytes, CUstream) {
    if (!IsFakePinned(to, bytes)) ++FakeDriver().pageable_copies;
    return FakeCopy(to, FakePointer(from), bytes);
  };
  api.set_bytes_async = [](CUdeviceptr to, unsigned char value, size_t bytes, CUstream) {
    std::memset(FakePointer(to), value, bytes);
    return CUDA_SUCCESS;
  };
}

// A CUfunction is the kernel's name.
inline CUresult FindFakeKernel(CUfunction* function, CUmodule, const char* name) {
  static std::set<std::string>& names = *new std::set<std::string>;
  *function = reinterpret_cast<CUfunction>(const_cast<std::string*>(&*names.insert(name).first));
  return std::string(name) == "absent" ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

inline CUresult FakeLaunch(CUfunction function, unsigned grid) {
  if (function != nullptr) FakeDriver().work.push_back(*reinterpret_cast<const std::string*>(function));
  FakeDriver().launches.push_back(grid);
  return FakeDriver().launch_result;
}

inline void AddFakeWork(DriverApi& api) {
  api.module_load_data = [](CUmodule*, const void*) { return FakeDriver().module_result; };
  api.module_unload = [](CUmodule) { return CUDA_SUCCESS; };
  api.module_function = &FindFakeKernel;
  api.function_attribute = [](int* value, CUfunction_attribute, CUfunction) {
    *value = FakeDriver().kernel_capability;
    return CUDA_SUCCESS;
  };
  api.function_set_attribute = [](CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; };
  api.stream_create = [](CUstream*, unsigned) { return CUDA_SUCCESS; };
  api.stream_destroy = [](CUstream) { return CUDA_SUCCESS; };
  api.stream_synchronize = [](CUstream) {
    ++FakeDriver().waits;
    return CUDA_SUCCESS;
  };
  api.event_create = [](CUevent*, unsigned) { return CUDA_SUCCESS; };
  api.event_record = [](CUevent, CUstream) {
    FakeDriver().work.push_back("event");
    return CUDA_SUCCESS;
  };
  api.event_synchronize = [](CUevent) { return CUDA_SUCCESS; };
  api.event_destroy = [](CUevent) { return CUDA_SUCCESS; };
  api.launch_kernel = [](CUfunction function, unsigned x, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         CUstream, void**, void**) { return FakeLaunch(function, x); };
  api.launch_kernel_ex = [](const CUlaunchConfig* config, CUfunction function, void**, void**) {
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const CUlaunchAttribute& one = config->attrs[i];
      if (one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
          one.value.programmaticStreamSerializationAllowed != 0) {
        FakeDriver().overlapping.push_back(config->gridDimX);
      }
    }
    return FakeLaunch(function, config->gridDimX);
  };
}

// A table of all that engine/cuda/device.h calls but graphs. Starts the state anew.
inline const DriverApi& FakeDriverApi() {
  static const DriverApi& api = *[] {
    auto* const made = new DriverApi;
    AddFakeDevice(*made);
    AddFakeMemory(*made);
    AddFakeWork(*made);
    return made;
  }();
  FakeDriver() = {};
  return api;
}

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_TESTING_FAKE_DRIVER_H_
