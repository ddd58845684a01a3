#include "tests/cuda/bench/cublaslt_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::engine::cuda {
namespace {

// Binds functions until one is missing.
class Binder {
 public:
  explicit Binder(void* library) : library_(library) {}

  template <typename Function>
  void Bind(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  // Empty where there are all.
  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

std::vector<std::string> LibrariesToTry() {
  const char* const named = std::getenv(kCublasLtVariable);
  if (named != nullptr && *named != '\0') return {named};
  return {std::begin(kCublasLtLibraries), std::end(kCublasLtLibraries)};
}

// The name of the first function that the library lacks.
std::string BindAll(void* library, CublasLtApi& api) {
  Binder binder(library);
  binder.Bind(api.get_version, "cublasLtGetVersion");
  binder.Bind(api.get_status_string, "cublasLtGetStatusString");
  binder.Bind(api.create, "cublasLtCreate");
  binder.Bind(api.destroy, "cublasLtDestroy");
  binder.Bind(api.operation_create, "cublasLtMatmulDescCreate");
  binder.Bind(api.operation_destroy, "cublasLtMatmulDescDestroy");
  binder.Bind(api.operation_set, "cublasLtMatmulDescSetAttribute");
  binder.Bind(api.layout_create, "cublasLtMatrixLayoutCreate");
  binder.Bind(api.layout_destroy, "cublasLtMatrixLayoutDestroy");
  binder.Bind(api.preference_create, "cublasLtMatmulPreferenceCreate");
  binder.Bind(api.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  binder.Bind(api.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  binder.Bind(api.propose, "cublasLtMatmulAlgoGetHeuristic");
  binder.Bind(api.multiply, "cublasLtMatmul");
  return binder.missing();
}

}  // namespace

absl::StatusOr<CublasLtApi> LoadCublasLt() {
  CublasLtApi api;
  void* library = nullptr;
  const std::vector<std::string> names = LibrariesToTry();
  for (size_t i = 0; i < names.size() && library == nullptr; ++i) {
    api.library = names[i];
    library = dlopen(names[i].c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("no cuBLASLt on this machine: neither of ", absl::StrJoin(names, ", "),
                                               " loads; ", kCublasLtVariable, " names another"));
  }
  const std::string missing = BindAll(library, api);
  if (!missing.empty()) return absl::UnavailableError(absl::StrCat(api.library, " has no ", missing));
  api.version = api.get_version();
  api.is_stand_in = dlsym(library, kCublasLtStandInSymbol) != nullptr;
  return api;
}

absl::Status CublasLtStatus(const CublasLtApi& api, cublaslt::Status status, const char* what) {
  if (status == cublaslt::kSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cuBLASLt, ", what, ": ", api.get_status_string(status)));
}

}  // namespace baton::engine::cuda
