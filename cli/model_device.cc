#include "cli/model_device.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::cli {
namespace {

// What the kernels of a device do not compute. A device has numerics of its own, with KV in bf16.
absl::Status CheckNumerics(const KernelFlags& flags) {
  if (flags.numerics != "exact") {
    return absl::InvalidArgumentError(absl::StrCat("--numerics ", flags.numerics, " is computed on the CPU alone"));
  }
  if (flags.kv_dtype != "auto" && flags.kv_dtype != "bf16") {
    return absl::InvalidArgumentError(absl::StrCat("--kv-dtype ", flags.kv_dtype, " is computed on the CPU alone"));
  }
  return absl::OkStatus();
}

absl::StatusOr<const engine::DevicePluginTable*> FindPluginFor(const KernelFlags& flags) {
  BATON_RETURN_IF_ERROR(engine::CheckCudaDriver());
  BATON_RETURN_IF_ERROR(CheckNumerics(flags));
  return engine::LoadCudaPlugin();
}

}  // namespace

std::string ModelDevice::Name() const { return plugin == nullptr ? "cpu" : absl::StrCat("cuda:", ordinal); }

absl::StatusOr<ModelDevice> ChooseDevice(const KernelFlags& flags) {
  const engine::DeviceChoice choice = *engine::ParseDevice(flags.device);
  ModelDevice device{.ordinal = choice.ordinal};
  if (choice.kind == engine::DeviceKind::kCpu) return device;
  const absl::StatusOr<const engine::DevicePluginTable*> plugin = FindPluginFor(flags);
  if (plugin.ok()) {
    device.plugin = *plugin;
  } else if (choice.kind == engine::DeviceKind::kCuda) {
    return absl::Status(plugin.status().code(),
                        absl::StrCat("--device ", flags.device, ": ", plugin.status().message()));
  } else {
    device.why_cpu = absl::StrCat(plugin.status().message(), ": computing on the CPU");
  }
  return device;
}

absl::StatusOr<ModelDevice> ChooseWorkerDevice(const EngineFlags& flags) {
  BATON_ASSIGN_OR_RETURN(ModelDevice device, ChooseDevice(flags));
  if (!flags.gpu_memory_utilization.has_value() || device.plugin != nullptr) return device;
  return absl::InvalidArgumentError(
      absl::StrCat("--gpu-memory-utilization is of a device (",
                   device.why_cpu.empty() ? absl::StrCat("--device ", flags.device) : device.why_cpu,
                   "): give the size of the pool with --kv-memory"));
}

}  // namespace baton::cli
