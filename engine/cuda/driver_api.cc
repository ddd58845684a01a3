#include "engine/cuda/driver_api.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::engine::cuda {
namespace {

// The argument is expanded first, so that a name is the one that cuda.h maps it to ("cuMemAlloc_v2").
#define BATON_CUDA_TEXT(name) #name
#define BATON_CUDA_SYMBOL(name) BATON_CUDA_TEXT(name)

constexpr char kLibrary[] = "libcuda.so.1";

absl::StatusOr<DriverApi> OpenDriver() {
  // Kept open as long as the process runs: the driver has threads of its own.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError("no CUDA driver on this machine");
  DriverApi api;
#define BATON_CUDA_LOAD(member, function)                                                                \
  api.member = reinterpret_cast<decltype(api.member)>(dlsym(library, BATON_CUDA_SYMBOL(function)));      \
  if (api.member == nullptr) {                                                                           \
    return absl::UnavailableError("the CUDA driver is too old: it has no " BATON_CUDA_SYMBOL(function)); \
  }
  BATON_CUDA_DRIVER_FUNCTIONS(BATON_CUDA_LOAD)
#undef BATON_CUDA_LOAD
  if (const CUresult result = api.init(0); result != CUDA_SUCCESS) {
    if (result == CUDA_ERROR_NO_DEVICE) return absl::UnavailableError("the CUDA driver sees no device");
    return absl::UnavailableError(
        absl::StrCat("the CUDA driver does not start: ", DriverStatus(api, result, "cuInit").message()));
  }
  int devices = 0;
  BATON_RETURN_IF_ERROR(DriverStatus(api, api.device_count(&devices), "cuDeviceGetCount"));
  if (devices == 0) return absl::UnavailableError("the CUDA driver sees no device");
  return api;
}

}  // namespace

absl::StatusOr<const DriverApi*> LoadDriverApi() {
  static const absl::StatusOr<DriverApi>& api = *new absl::StatusOr<DriverApi>(OpenDriver());
  if (!api.ok()) return api.status();
  return &*api;
}

absl::Status DriverStatus(const DriverApi& api, CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.error_name(result, &name) != CUDA_SUCCESS || name == nullptr) name = "an unknown error";
  if (api.error_string(result, &text) != CUDA_SUCCESS || text == nullptr) text = "no description";
  const std::string message = absl::StrCat(what, ": ", name, " (", text, ")");
  return result == CUDA_ERROR_OUT_OF_MEMORY ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

std::string_view DeviceAdvice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
      return "The hardware is at fault: nvidia-smi -q says where. Reset the device, or replace it.";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ASSERT:
      return "The next process can use the device. If it happens again, report this line as a bug of Baton.";
    case CUDA_ERROR_OUT_OF_MEMORY:
      return "Leave the device more free memory: a smaller --kv-memory, or no other process on it.";
    default:
      return "The next process may find the device well. If it happens again, see nvidia-smi and the kernel's log.";
  }
}

}  // namespace baton::engine::cuda
