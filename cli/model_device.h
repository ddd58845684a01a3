// --device of the command line to the plug-in that computes a model, or to the reason why the CPU does.
#ifndef BATON_CLI_MODEL_DEVICE_H_
#define BATON_CLI_MODEL_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/options.h"
#include "engine/device_plugin.h"

namespace baton::cli {

struct ModelDevice {
  // Null: the CPU.
  const engine::DevicePluginTable* plugin = nullptr;
  int ordinal = 0;
  // One line for the log where the CPU was not asked for; else empty.
  std::string why_cpu;

  // "cpu" or "cuda:N".
  std::string Name() const;
};

// Flags that passed the parser's checks. With --device cuda, every reason against it is an error, which names the flag.
absl::StatusOr<ModelDevice> ChooseDevice(const KernelFlags& flags);

// The same for a worker. --gpu-memory-utilization is of a device alone: who gives it gets an error where the CPU
// computes, with --device auto too.
absl::StatusOr<ModelDevice> ChooseWorkerDevice(const EngineFlags& flags);

}  // namespace baton::cli

#endif  // BATON_CLI_MODEL_DEVICE_H_
