// Where a model computes: on the CPU, or on a device through a plug-in, which is a library of its own because it needs
// a driver that most machines lack. The program looks for the plug-in at run time, and only where a driver answers.
#ifndef BATON_ENGINE_DEVICE_PLUGIN_H_
#define BATON_ENGINE_DEVICE_PLUGIN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/device_memory.h"
#include "engine/model_options.h"
#include "engine/model_runner.h"
#include "modelfile/model_file.h"

namespace baton::engine {

enum class DeviceKind : uint8_t { kAuto, kCpu, kCuda };

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kAuto;
  // Of the driver's devices.
  int ordinal = 0;
};

// Reads "auto", "cpu", "cuda" or "cuda:N". Nothing for another text.
std::optional<DeviceChoice> ParseDevice(std::string_view text);

struct DeviceModelOptions {
  int ordinal = 0;
  Weights weights = Weights::kAuto;
  int max_rows = 1024;
  // As of CpuModelOptions.
  int max_sequences = 0;
  // Outlives the call. Null: nobody watches.
  LoadProgress* progress = nullptr;
};

// What a plug-in is. Its two first members stay as they are for all time, and `build` keeps its place as long as
// `interface` keeps its number. The others are those of one build of Baton, since types of C++ pass.
struct DevicePluginTable {
  uint32_t interface;
  // kVersion and BuildId of the build.
  const char* version;
  const char* build;
  // The runner lives as long as the process may: the plug-in is never closed.
  absl::StatusOr<std::unique_ptr<ModelRunner>> (*load)(const modelfile::ModelFile& file,
                                                       const DeviceModelOptions& options);
  // The memory of the device that a runner of this plug-in computes on, which holds all that it takes but a KV pool.
  absl::StatusOr<DeviceMemory> (*memory)(const ModelRunner& runner);
};

inline constexpr uint32_t kDevicePluginInterface = 2;
// The only symbol that a plug-in exports: a function without arguments that returns its table.
inline constexpr char kDevicePluginSymbol[] = "BatonDevicePlugin";
using DevicePluginFunction = const DevicePluginTable* (*)();

// Whether the machine's CUDA driver is there, starts and sees a device. UNAVAILABLE says what is missing.
absl::Status CheckCudaDriver();

// The files that may be the plug-in, in order: $BATON_CUDA_PLUGIN alone if it is set, else the one that is installed,
// or built, with the program.
std::vector<std::string> CudaPluginPaths();

// Loads the plug-in. The errors of CheckCudaDriver, NOT_FOUND when there is no plug-in, FAILED_PRECONDITION for one
// that is damaged, of another version or of another build. All are one line.
absl::StatusOr<const DevicePluginTable*> LoadCudaPlugin();

// What `baton version` says of CUDA.
std::string_view CudaStatement();

}  // namespace baton::engine

#endif  // BATON_ENGINE_DEVICE_PLUGIN_H_
