#include "tests/nccl/device.h"

#include <dlfcn.h>

#include <memory>
#include <thread>
#include <utility>

namespace baton::nccl_stand_in {
namespace {

constexpr int kDriverSuccess = 0;
constexpr unsigned kNonBlockingStream = 1;

template <typename Function>
bool Bind(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Device* Device::Get() {
  // Never destroyed: streams may still run when the process ends.
  static Device* const device = [] {
    auto* const made = new Device;
    return made->Load() ? made : nullptr;
  }();
  return device;
}

bool Device::Load() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver != nullptr && Bind(driver, retain_, "cuDevicePrimaryCtxRetain") &&
         Bind(driver, set_current_, "cuCtxSetCurrent") && Bind(driver, stream_create_, "cuStreamCreate") &&
         Bind(driver, stream_synchronize_, "cuStreamSynchronize") &&
         Bind(driver, launch_host_function_, "cuLaunchHostFunc") &&
         Bind(driver, copy_to_device_, "cuMemcpyHtoDAsync_v2") && Bind(driver, copy_to_host_, "cuMemcpyDtoHAsync_v2") &&
         retain_(&context_, 0) == kDriverSuccess && set_current_(context_) == kDriverSuccess &&
         stream_create_(&stream_, kNonBlockingStream) == kDriverSuccess;
}

bool Device::Put(void* stream, std::function<void()> task) {
  if (set_current_(context_) != kDriverSuccess) return false;
  auto owned = std::make_unique<std::function<void()>>(std::move(task));
  const auto run = [](void* argument) {
    const std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(argument));
    std::thread(*own).join();
  };
  if (launch_host_function_(stream, run, owned.get()) != kDriverSuccess) return false;
  static_cast<void>(owned.release());
  return true;
}

bool Device::Finish(int issued) { return issued == kDriverSuccess && stream_synchronize_(stream_) == kDriverSuccess; }

bool Device::CopyOut(uint8_t* to, const uint8_t* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  return set_current_(context_) == kDriverSuccess &&
         Finish(copy_to_host_(to, reinterpret_cast<uint64_t>(from), bytes, stream_));
}

bool Device::CopyIn(uint8_t* to, const uint8_t* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  return set_current_(context_) == kDriverSuccess &&
         Finish(copy_to_device_(reinterpret_cast<uint64_t>(to), from, bytes, stream_));
}

}  // namespace baton::nccl_stand_in
