#include "tests/ptx/planted_faults.h"

#include <unistd.h>

#include <atomic>
#include <fstream>

#include "tests/ptx/emulated_device.h"
#include "tests/ptx/interpreted_driver.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

using engine::cuda::DriverApi;

// The path of the file of this process.
std::string& FaultFile() {
  static auto* const kPath = new std::string;
  return *kPath;
}

std::atomic<bool> device_hangs{false};

CUresult ErrorOf(const std::string& word) {
  if (word == "illegal_address") return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (word == "ecc_uncorrectable") return CUDA_ERROR_ECC_UNCORRECTABLE;
  return CUDA_ERROR_UNKNOWN;
}

// Whether what is launched now comes to nothing. A device that is broken already answers for itself.
bool MeetsFault() {
  if (device_hangs) return true;
  auto& device = EmulatedDevice::Get();
  const std::lock_guard lock(device.mutex);
  std::string word;
  if (device.broken != CUDA_SUCCESS || !(std::ifstream(FaultFile()) >> word)) return false;
  if (word == "hang") {
    device_hangs = true;
  } else {
    device.broken = ErrorOf(word);
  }
  return true;
}

template <auto kMember, class Function>
struct Faulty;

template <auto kMember, class... Args>
struct Faulty<kMember, CUresult(Args...)> {
  static CUresult CUDAAPI Launch(Args... args) {
    return MeetsFault() ? CUDA_SUCCESS : (InterpretedDriver().*kMember)(args...);
  }
  static CUresult CUDAAPI Wait(Args... args) {
    while (MeetsFault() && device_hangs) pause();
    return (InterpretedDriver().*kMember)(args...);
  }
};

}  // namespace

void AddPlantedFaults(const std::string& folder, DriverApi& api) {
  FaultFile() = Text(folder, "/", getpid());
  device_hangs = false;
  api.launch_kernel = &Faulty<&DriverApi::launch_kernel, decltype(::cuLaunchKernel)>::Launch;
  api.graph_launch = &Faulty<&DriverApi::graph_launch, decltype(::cuGraphLaunch)>::Launch;
  api.stream_synchronize = &Faulty<&DriverApi::stream_synchronize, decltype(::cuStreamSynchronize)>::Wait;
  api.event_synchronize = &Faulty<&DriverApi::event_synchronize, decltype(::cuEventSynchronize)>::Wait;
}

}  // namespace baton::ptx
