// Modules, functions, launches.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/ptx/driver_functions.h"
#include "tests/ptx/emulated_device.h"
#include "tests/ptx/fat_binary.h"

namespace baton::ptx {
namespace {

// sm_80 runs what was made for it or for less.
constexpr int kNewestTarget = 80;

bool TargetFits(std::string_view target) {
  if (!target.starts_with("sm_")) return false;
  int version = 0;
  return absl::SimpleAtoi(std::string(target.substr(3)), &version) && version <= kNewestTarget;
}

bool IsElf(const char* image) {
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  return std::equal(kElf.begin(), kElf.end(), image);
}

// The PTX of what cuModuleLoadData was given: text, or a fat binary.
CUresult TextOfImage(EmulatedDevice& device, const void* image, std::string* text) {
  if (IsElf(static_cast<const char*>(image))) {
    device.module_error = "the module is not PTX text";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (!IsFatBinary(image)) {
    *text = static_cast<const char*>(image);
    return CUDA_SUCCESS;
  }
  absl::StatusOr<std::string> found = PtxOfFatBinary(image, kNewestTarget);
  if (found.ok()) {
    *text = *std::move(found);
    return CUDA_SUCCESS;
  }
  device.module_error = std::string(found.status().message());
  return absl::IsNotFound(found.status()) ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
}

CUresult CUDAAPI ModuleLoad(CUmodule* handle, const void* image) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  if (handle == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string text;
  if (const CUresult result = TextOfImage(device, image, &text); result != CUDA_SUCCESS) return result;
  std::unique_ptr<LoadedModule> loaded;
  const absl::Status status = device.Load(text.c_str(), &loaded);
  if (!status.ok()) {
    device.module_error = std::string(status.message());
    return status.code() == absl::StatusCode::kResourceExhausted ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_PTX;
  }
  if (!TargetFits(loaded->module.target)) {
    device.module_error = "the target is " + loaded->module.target;
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  for (auto& [name, function] : loaded->functions) device.functions[&function] = &function;
  *handle = reinterpret_cast<CUmodule>(loaded.get());
  device.modules[loaded.get()] = std::move(loaded);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI ModuleUnload(CUmodule handle) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  const auto found = device.modules.find(handle);
  if (found == device.modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  for (auto& [name, function] : found->second->functions) device.functions.erase(&function);
  for (Allocation* variable : found->second->variables) device.memory.Release(*variable);
  device.modules.erase(found);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI ModuleFunction(CUfunction* handle, CUmodule module, const char* name) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  if (handle == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = device.modules.find(module);
  if (found == device.modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  const auto function = found->second->functions.find(name);
  if (function == found->second->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *handle = reinterpret_cast<CUfunction>(&function->second);
  return CUDA_SUCCESS;
}

LoadedFunction* FindFunction(EmulatedDevice& device, CUfunction handle) {
  const auto found = device.functions.find(handle);
  return found == device.functions.end() ? nullptr : found->second;
}

CUresult CUDAAPI FunctionAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  const LoadedFunction* function = FindFunction(device, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelProgram& program = function->program;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = program.most_threads == 0 ? 1024 : static_cast<int>(program.most_threads);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(program.static_shared);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(program.local_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      // The compiler's allocation is not known here.
      *value = 64;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 80;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function->most_dynamic_shared);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI SetFunctionAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  LoadedFunction* function = FindFunction(device, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      static_cast<uint32_t>(value) + function->program.static_shared > kSharedOptIn) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  function->most_dynamic_shared = static_cast<uint32_t>(value);
  return CUDA_SUCCESS;
}

bool ShapeFits(const LoadedFunction& function, const std::array<uint32_t, 3>& grid,
               const std::array<uint32_t, 3>& block, uint32_t shared) {
  const KernelProgram& program = function.program;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] == 0 || block[i] == 0 || grid[i] > (i == 0 ? 0x7fffffffU : 65535U)) return false;
    if (block[i] > (i == 2 ? 64U : 1024U)) return false;
    if (program.required[0] != 0 && block[i] != program.required[i]) return false;
  }
  const uint32_t threads = block[0] * block[1] * block[2];
  const uint32_t most = program.most_threads == 0 ? 1024 : program.most_threads;
  return threads <= most && shared <= function.most_dynamic_shared;
}

CUresult RunLaunch(EmulatedDevice& device, LoadedFunction* function, const std::array<uint32_t, 3>& grid,
                   const std::array<uint32_t, 3>& block, uint32_t shared, const std::vector<uint8_t>& params) {
  // A graph may be replayed after its module is gone.
  if (!device.functions.contains(function)) return CUDA_ERROR_INVALID_HANDLE;
  Launch launch;
  launch.kernel = &function->program;
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_shared = shared;
  launch.params = params;
  launch.memory = &device.memory;
  launch.findings = &device.findings;
  launch.options = device.options;
  launch.number = ++device.launches;
  if (device.options.check_global_races) device.memory.TrackAccesses();
  Run(launch);
  device.instructions += launch.instructions;
  device.by_kernel[function->program.name] += launch.instructions;
  device.failed = device.failed || !device.findings.Empty();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI LaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** values,
                              void** extra) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  if (const CUresult result = device.Ready(); result != CUDA_SUCCESS) return result;
  LoadedFunction* function = FindFunction(device, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (extra != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const std::array<uint32_t, 3> grid = {grid_x, grid_y, grid_z};
  const std::array<uint32_t, 3> block = {block_x, block_y, block_z};
  const KernelProgram& program = function->program;
  if (!ShapeFits(*function, grid, block, shared)) return CUDA_ERROR_INVALID_VALUE;
  if (values == nullptr && !program.params.empty()) return CUDA_ERROR_INVALID_VALUE;
  std::vector<uint8_t> params(program.param_bytes);
  for (size_t i = 0; i < program.params.size(); ++i) {
    std::memcpy(params.data() + program.params[i].first, values[i], program.params[i].second);
  }
  return device.Submit(stream, [&device, function, grid, block, shared, params = std::move(params)] {
    return RunLaunch(device, function, grid, block, shared, params);
  });
}

// Kernels run one after the other, so that it makes no difference whether one may begin early.
CUresult CUDAAPI LaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** values, void** extra) {
  if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return LaunchKernel(handle, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                      config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, values, extra);
}

}  // namespace

void AddModuleFunctions(engine::cuda::DriverApi& api) {
  api.module_load_data = &ModuleLoad;
  api.module_unload = &ModuleUnload;
  api.module_function = &ModuleFunction;
  api.function_attribute = &FunctionAttribute;
  api.function_set_attribute = &SetFunctionAttribute;
  api.launch_kernel = &LaunchKernel;
  api.launch_kernel_ex = &LaunchKernelEx;
}

}  // namespace baton::ptx
