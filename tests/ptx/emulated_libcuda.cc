// libcuda.so.1 over the interpreter: programs that load the CUDA driver at run time find it through LD_LIBRARY_PATH. It
// has the functions of engine/cuda/driver_api.h, under the names that cuda.h maps them to, and no others.
//
//   BATON_PTX_HOST_THREADS=N   threads that run the blocks of a launch: 1 to 64, and 1 unless set
//   BATON_PTX_CHECKS=0|1       whether reads of what nobody wrote and races are looked for; 1 unless set
//   BATON_PTX_MEMORY_MIB=N     memory of the device: 1 to 65536, and 1024 unless set. The host holds two bytes for each
//                              that is in use
//   BATON_PTX_IPC=0|1          whether memory can be opened by other processes, as on some machines it cannot; 1 unless set
//   BATON_PTX_FAULTS=FOLDER    where a test plants failures of the device (planted_faults.h)
//
// Another value makes cuInit fail. What the interpreter finds is written to stderr when it is found, each finding once,
// and so is why a module did not load.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/ptx/interpreted_driver.h"
#include "tests/ptx/planted_faults.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

using engine::cuda::DriverApi;

constexpr char kThreadsVariable[] = "BATON_PTX_HOST_THREADS";
constexpr char kChecksVariable[] = "BATON_PTX_CHECKS";
constexpr char kMemoryVariable[] = "BATON_PTX_MEMORY_MIB";
constexpr char kIpcVariable[] = "BATON_PTX_IPC";
constexpr char kFaultsVariable[] = "BATON_PTX_FAULTS";
constexpr int kMostThreads = 64;
constexpr int kMemoryMib = 1024;
constexpr int kMostMemoryMib = 1 << 16;

std::atomic<bool> has_ipc = true;

// A line at once, so that lines of several processes stay whole.
void WriteLine(std::string_view text) {
  const std::string line = Text("emulated CUDA device: ", text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// Nothing, and a line about it, for a value outside [least, most].
std::optional<int> ReadVariable(const char* name, int unset, int least, int most) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return unset;
  int value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= least && value <= most) return value;
  WriteLine(Text(name, " is from ", least, " to ", most, ", and not ", text));
  return std::nullopt;
}

CUresult CUDAAPI InitFromEnvironment(unsigned flags) {
  const std::optional<int> threads = ReadVariable(kThreadsVariable, 1, 1, kMostThreads);
  const std::optional<int> checks = ReadVariable(kChecksVariable, 1, 0, 1);
  const std::optional<int> memory_mib = ReadVariable(kMemoryVariable, kMemoryMib, 1, kMostMemoryMib);
  const std::optional<int> ipc = ReadVariable(kIpcVariable, 1, 0, 1);
  if (!threads || !checks || !memory_mib || !ipc) return CUDA_ERROR_INVALID_VALUE;
  has_ipc = *ipc == 1;
  Options options = GetOptions();
  options.host_threads = *threads;
  options.check_uninitialized = options.check_shared_races = options.check_exited_threads = options.check_copies =
      *checks == 1;
  SetOptions(options);
  SetMemoryLimit(static_cast<uint64_t>(*memory_mib) << 20);
  return InterpretedDriver().init(flags);
}

CUresult CUDAAPI LoadAndExplain(CUmodule* module, const void* image) {
  const CUresult result = InterpretedDriver().module_load_data(module, image);
  if (result != CUDA_SUCCESS) WriteLine(Text("the module does not load: ", ModuleError()));
  return result;
}

CUresult CUDAAPI GetHandleWhereAllowed(CUipcMemHandle* handle, CUdeviceptr address) {
  return has_ipc ? InterpretedDriver().ipc_get_handle(handle, address) : CUDA_ERROR_NOT_SUPPORTED;
}

const DriverApi& Table() {
  static const DriverApi kTable = [] {
    DriverApi made = InterpretedDriver();
    made.init = &InitFromEnvironment;
    made.module_load_data = &LoadAndExplain;
    made.ipc_get_handle = &GetHandleWhereAllowed;
    if (const char* const folder = std::getenv(kFaultsVariable); folder != nullptr) AddPlantedFaults(folder, made);
    return made;
  }();
  return kTable;
}

void ReportFindings() {
  static std::mutex mutex;
  static size_t reported = 0;
  const std::lock_guard lock(mutex);
  const std::vector<Finding> findings = SeeFindings();
  for (; reported < findings.size(); ++reported) WriteLine(ToString(findings[reported]));
}

template <auto kMember, class Function>
struct Forward;

template <auto kMember, class... Args>
struct Forward<kMember, CUresult(Args...)> {
  static CUresult CUDAAPI Call(Args... args) {
    const CUresult result = (Table().*kMember)(args...);
    ReportFindings();
    return result;
  }
};

}  // namespace
}  // namespace baton::ptx

// cuda.h declares the functions, and a definition would repeat the parameters of each. The linker asks a resolver
// instead where a function is.
#define BATON_PTX_EXPORT(member, function)                                                            \
  static decltype(&::function) Resolve_##member() {                                                   \
    return &baton::ptx::Forward<&baton::engine::cuda::DriverApi::member, decltype(::function)>::Call; \
  }                                                                                                   \
  decltype(::function) function __attribute__((ifunc("Resolve_" #member), visibility("default")));

extern "C" {
BATON_CUDA_DRIVER_FUNCTIONS(BATON_PTX_EXPORT)
}
#undef BATON_PTX_EXPORT
