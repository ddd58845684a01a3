#include "engine/device_plugin.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "common/version.h"
#include "engine/build_id.h"

namespace baton::engine {
namespace {

constexpr char kDriverLibrary[] = "libcuda.so.1";
constexpr char kPluginName[] = "libbaton_cuda.so";
constexpr char kPluginVariable[] = "BATON_CUDA_PLUGIN";
constexpr int kMaxOrdinal = 255;
// CUDA_SUCCESS and CUDA_ERROR_NO_DEVICE of cuda.h, which this part of the program is built without.
constexpr int kCudaSuccess = 0;
constexpr int kCudaNoDevice = 100;

// Loading a file that was cut off would kill the process where it reads what is missing, so its headers are checked
// against its size first. The section headers come last in a library.
absl::Status CheckWholeLibrary(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (error || !file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return absl::FailedPreconditionError(absl::StrCat("the CUDA plug-in ", path, " is damaged: it is no library"));
  }
  const uint64_t wanted = header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum;
  if (header.e_shoff > bytes || wanted > bytes) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the CUDA plug-in %s is damaged: it has %d bytes and its headers speak of %d", path, bytes, wanted));
  }
  return absl::OkStatus();
}

absl::StatusOr<const DevicePluginTable*> OpenPlugin(const std::string& path) {
  BATON_RETURN_IF_ERROR(CheckWholeLibrary(path));
  // Stays open: runners live in it.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the CUDA plug-in ", path, " does not load: ", dlerror()));
  }
  const auto function = reinterpret_cast<DevicePluginFunction>(dlsym(library, kDevicePluginSymbol));
  const DevicePluginTable* const table = function == nullptr ? nullptr : function();
  if (table == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no plug-in of Baton: it lacks ", kDevicePluginSymbol));
  }
  if (table->interface != kDevicePluginInterface || std::string_view(table->version) != kVersion) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the CUDA plug-in %s is of version %s (interface %d), this program of %s (%d): install both from one build",
        path, table->version, table->interface, kVersion, kDevicePluginInterface));
  }
  if (std::string_view(table->build) != BuildId()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the CUDA plug-in %s is of another build of version %s (%s) than this program (%s): install "
                        "both from one build",
                        path, kVersion, table->build, BuildId()));
  }
  return table;
}

absl::StatusOr<const DevicePluginTable*> FindPlugin() {
  BATON_RETURN_IF_ERROR(CheckCudaDriver());
  const std::vector<std::string> paths = CudaPluginPaths();
  for (const std::string& path : paths) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return OpenPlugin(path);
  }
  return absl::NotFoundError(absl::StrCat("the CUDA plug-in is not installed: no ", absl::StrJoin(paths, ", no ")));
}

}  // namespace

std::optional<DeviceChoice> ParseDevice(std::string_view text) {
  if (text == "auto") return DeviceChoice{.kind = DeviceKind::kAuto};
  if (text == "cpu") return DeviceChoice{.kind = DeviceKind::kCpu};
  if (text == "cuda") return DeviceChoice{.kind = DeviceKind::kCuda};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  int ordinal = 0;
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  if (!is_number || !absl::SimpleAtoi(ToAbsl(text), &ordinal) || ordinal > kMaxOrdinal) return std::nullopt;
  return DeviceChoice{.kind = DeviceKind::kCuda, .ordinal = ordinal};
}

absl::Status CheckCudaDriver() {
  void* const library = dlopen(kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError("no CUDA driver on this machine");
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto device_count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
  if (init == nullptr || device_count == nullptr) {
    return absl::UnavailableError(absl::StrCat(kDriverLibrary, " of this machine is no CUDA driver"));
  }
  int devices = 0;
  int result = init(0);
  if (result == kCudaSuccess) result = device_count(&devices);
  if (result != kCudaSuccess && result != kCudaNoDevice) {
    return absl::UnavailableError(absl::StrCat("the CUDA driver does not start: its error ", result));
  }
  if (devices == 0) return absl::UnavailableError("the CUDA driver sees no device");
  return absl::OkStatus();
}

std::vector<std::string> CudaPluginPaths() {
  if (const char* const path = std::getenv(kPluginVariable); path != nullptr) return {path};
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return {(program.parent_path().parent_path() / "lib" / "baton" / kPluginName).string()};
}

absl::StatusOr<const DevicePluginTable*> LoadCudaPlugin() {
  static const absl::StatusOr<const DevicePluginTable*>& plugin =
      *new absl::StatusOr<const DevicePluginTable*>(FindPlugin());
  return plugin;
}

std::string_view CudaStatement() {
#ifdef BATON_HAS_CUDA
  return "CUDA: compiled and checked on emulation; not yet run on a GPU";
#else
  return "CUDA: left out of this build";
#endif
}

}  // namespace baton::engine
