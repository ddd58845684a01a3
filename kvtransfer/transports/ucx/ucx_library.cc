#include "kvtransfer/transports/ucx/ucx_library.h"

#include <dlfcn.h>
#include <ucp/api/ucp_version.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status.h"

namespace baton::kvtransfer {
namespace {

// UCX would print to stdout, which belongs to the command's output. What it calls an error is, for us, mostly a peer
// that died: callers get a status of it, so the line is only for debugging.
ucs_log_func_rc_t LogThroughOurs(const char* file, unsigned line, const char* function, ucs_log_level_t level,
                                 const ucs_log_component_config_t* component, const char* message, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof(text), message, arguments);
  if (level == UCS_LOG_LEVEL_FATAL) {
    spdlog::error("ucx: {}", text);
  } else {
    spdlog::debug("ucx: {}", text);
  }
  return UCS_LOG_FUNC_RC_STOP;
}

constexpr char kLibrary[] = "libucp.so.0";

UcxFunctions functions;  // written once, by SetUpOnce

// Loads UCX at run time, because its environment must be set before. By default UCX watches the process's memory
// mappings for its cache of registrations, which our transports do not use: it patches functions of libc and waits
// after each, which takes 0.4 s.
absl::Status LoadLibrary() {
  setenv("UCX_MEM_MMAP_HOOK_MODE", "none", /*overwrite=*/1);
  // Never closed: UCX does not undo what it sets up at load.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot load UCX: ", dlerror(),
                     "; a build needs scripts/setup.sh, an installation its lib/baton beside its bin"));
  }
  std::string missing;
#define BATON_UCX_LOAD(name)                                                          \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (functions.name == nullptr) missing = #name;
  BATON_UCX_FUNCTIONS(BATON_UCX_LOAD)
#undef BATON_UCX_LOAD
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the UCX that was loaded has no ", missing, ": take other UCX libraries out of LD_LIBRARY_PATH"));
}

absl::Status SetUpOnce() {
  BATON_RETURN_IF_ERROR(LoadLibrary());
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  functions.ucp_get_version(&major, &minor, &release);
  if (major != UCP_API_MAJOR || minor != UCP_API_MINOR) {
    return absl::FailedPreconditionError(absl::StrCat(
        "UCX ", major, ".", minor, " was loaded, but this program needs ", UCP_API_MAJOR, ".", UCP_API_MINOR,
        ": Debian's libucx has the same SONAME; take it out of LD_LIBRARY_PATH or uninstall it"));
  }
  functions.ucs_log_push_handler(&LogThroughOurs);
  // When it is loaded, UCX installs a handler of SIGHUP that waits for a debugger; daemons are sent SIGHUP for other
  // reasons.
  functions.ucs_debug_disable_signal(SIGHUP);
  return absl::OkStatus();
}

}  // namespace

absl::Status SetUpUcx() {
  static const absl::Status* const kResult = new absl::Status(SetUpOnce());
  return *kResult;
}

const UcxFunctions& Ucx() { return functions; }

absl::Status UcxError(std::string_view what, ucs_status_t status) {
  const std::string text = absl::StrCat(ToAbsl(what), ": ", Ucx().ucs_status_string(status));
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return absl::ResourceExhaustedError(text);
    case UCS_ERR_CANCELED:
      return absl::CancelledError(text);
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_SHMEM_SEGMENT:
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_TIMED_OUT:
      return absl::UnavailableError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace baton::kvtransfer
