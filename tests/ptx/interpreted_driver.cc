#include "tests/ptx/interpreted_driver.h"

#include "tests/ptx/driver_functions.h"
#include "tests/ptx/emulated_device.h"

namespace baton::ptx {

const engine::cuda::DriverApi& InterpretedDriver() {
  static const auto* const kApi = [] {
    auto* made = new engine::cuda::DriverApi;
    AddDeviceFunctions(*made);
    AddModuleFunctions(*made);
    AddMemoryFunctions(*made);
    AddIpcFunctions(*made);
    AddStreamFunctions(*made);
    AddGraphFunctions(*made);
    return made;
  }();
  return *kApi;
}

void ResetDriver() {
  auto& device = EmulatedDevice::Get();
  std::map<void*, std::unique_ptr<Stream>> streams;
  {
    const std::lock_guard lock(device.mutex);
    streams.swap(device.streams);
  }
  // They end what they have begun.
  streams.clear();
  const std::lock_guard lock(device.mutex);
  device.Reset();
}

void SetOptions(const Options& options) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  device.options = options;
}

Options GetOptions() {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.options;
}

void SetMemoryLimit(uint64_t bytes) {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  device.memory.set_limit(bytes);
}

std::vector<Finding> TakeFindings() {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  device.failed = false;
  return device.findings.Take();
}

std::vector<Finding> SeeFindings() {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.findings.See();
}

std::string ModuleError() {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.module_error;
}

uint64_t ExecutedInstructions() {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.instructions;
}

std::map<std::string, uint64_t> InstructionsByKernel() {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.by_kernel;
}

size_t LiveAllocations() {
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  return device.memory.Count();
}

}  // namespace baton::ptx
