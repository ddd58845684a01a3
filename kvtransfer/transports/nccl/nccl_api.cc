#include "kvtransfer/transports/nccl/nccl_api.h"

#include <dlfcn.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::kvtransfer {
namespace {

constexpr char kSystemLibrary[] = "libnccl.so.2";
constexpr char kLibraryVariable[] = "BATON_NCCL_LIBRARY";

std::string LibraryName(const std::string& given) {
  if (!given.empty()) return given;
  const char* const named = std::getenv(kLibraryVariable);
  return named != nullptr && *named != '\0' ? named : kSystemLibrary;
}

template <typename Function>
void Bind(NcclApi& api, Function& function, const char* name, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(api.handle, name));
  if (function == nullptr && missing.empty()) missing = name;
}

// The name of the first function that the library lacks; empty when it has all.
std::string BindAll(NcclApi& api) {
  std::string missing;
  Bind(api, api.get_version, "ncclGetVersion", missing);
  Bind(api, api.get_unique_id, "ncclGetUniqueId", missing);
  Bind(api, api.comm_init_rank_config, "ncclCommInitRankConfig", missing);
  Bind(api, api.comm_get_async_error, "ncclCommGetAsyncError", missing);
  Bind(api, api.comm_abort, "ncclCommAbort", missing);
  Bind(api, api.group_start, "ncclGroupStart", missing);
  Bind(api, api.group_end, "ncclGroupEnd", missing);
  Bind(api, api.send, "ncclSend", missing);
  Bind(api, api.receive, "ncclRecv", missing);
  Bind(api, api.get_error_string, "ncclGetErrorString", missing);
  return missing;
}

}  // namespace

absl::StatusOr<NcclApi> LoadNcclApi(const std::string& library) {
  NcclApi api;
  api.library = LibraryName(library);
  api.handle = dlopen(api.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (api.handle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--transport nccl cannot load NCCL: ", dlerror(), "; install NCCL ", NcclVersionName(nccl::kOldestVersion),
        " or later, or name its libnccl.so.2 in ", kLibraryVariable, ", or choose another --transport"));
  }
  const std::string missing = BindAll(api);
  int version = 0;
  if (api.get_version != nullptr) api.get_version(&version);
  if (!missing.empty() || version < nccl::kOldestVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--transport nccl needs NCCL ", NcclVersionName(nccl::kOldestVersion), " or later, and ", api.library, " ",
        api.get_version == nullptr ? "is not NCCL" : absl::StrCat("is ", NcclVersionName(version)),
        missing.empty() ? "" : absl::StrCat(", without ", missing), ": name another in ", kLibraryVariable));
  }
  api.version = version;
  return api;
}

std::string NcclVersionName(int version) {
  constexpr int kFirstOfFiveDigits = 10000;
  if (version < kFirstOfFiveDigits) {
    return absl::StrCat(version / 1000, ".", version / 100 % 10, ".", version % 100);
  }
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::Status NcclStatus(const NcclApi& api, nccl::Result result, std::string_view what) {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return absl::OkStatus();
  const std::string text = absl::StrCat("NCCL, ", ToAbsl(what), ": ", api.get_error_string(result));
  switch (result) {
    case nccl::kSystemError:
    case nccl::kRemoteError:
      return absl::UnavailableError(text);
    case nccl::kUnhandledCudaError:
      return absl::FailedPreconditionError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace baton::kvtransfer
