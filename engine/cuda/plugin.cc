// The plug-in: what engine/device_plugin.h says of it.
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/version.h"
#include "engine/build_id.h"
#include "engine/cuda/cuda_model.h"
#include "engine/cuda/kernels/images.h"
#include "engine/device_plugin.h"

namespace baton::engine::cuda {
namespace {

// Whoever looks for a fault can turn these off with "0". "1" is as if the variable were not set.
//
// A launch may begin while the kernel before it runs.
constexpr char kOverlapVariable[] = "BATON_CUDA_OVERLAP";
// A step may be submitted before the tokens of the one before it are known.
constexpr char kStepsAheadVariable[] = "BATON_CUDA_STEPS_AHEAD";
// A reader may hear of layers before their step has ended.
constexpr char kLayerEventsVariable[] = "BATON_CUDA_LAYER_EVENTS";

absl::StatusOr<bool> ReadSwitch(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return true;
  const std::string_view value = text;
  if (value != "0" && value != "1") {
    return absl::InvalidArgumentError(absl::StrCat(variable, " is 0 or 1, and not ", text));
  }
  return value == "1";
}

absl::StatusOr<std::unique_ptr<ModelRunner>> LoadOnDevice(const modelfile::ModelFile& file,
                                                          const DeviceModelOptions& options) {
  BATON_ASSIGN_OR_RETURN(const DriverApi* const api, LoadDriverApi());
  const void* const images[] = {KernelsImage()};
  BATON_ASSIGN_OR_RETURN(const bool overlaps, ReadSwitch(kOverlapVariable));
  BATON_ASSIGN_OR_RETURN(const bool steps_ahead, ReadSwitch(kStepsAheadVariable));
  BATON_ASSIGN_OR_RETURN(const bool layer_events, ReadSwitch(kLayerEventsVariable));
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<const Device> device, Device::Open(*api, options.ordinal, images, overlaps));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<ModelRunner> runner, LoadCudaModel(file,
                                                                            {.weights = options.weights,
                                                                             .max_rows = options.max_rows,
                                                                             .max_slices = options.max_sequences,
                                                                             .steps_ahead = steps_ahead,
                                                                             .layer_events = layer_events,
                                                                             .progress = options.progress},
                                                                            std::move(device)));
  return runner;
}

absl::StatusOr<DeviceMemory> MemoryOf(const ModelRunner& runner) {
  // Graphs are captured when steps first need them, and are not among what the process holds before.
  return dynamic_cast<const CudaRunner&>(runner).device().Memory();
}

}  // namespace
}  // namespace baton::engine::cuda

extern "C" __attribute__((visibility("default"))) const baton::engine::DevicePluginTable* BatonDevicePlugin() {
  static const baton::engine::DevicePluginTable kTable{.interface = baton::engine::kDevicePluginInterface,
                                                       .version = baton::kVersion,
                                                       .build = baton::engine::BuildId(),
                                                       .load = &baton::engine::cuda::LoadOnDevice,
                                                       .memory = &baton::engine::cuda::MemoryOf};
  return &kTable;
}
