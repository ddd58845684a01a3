// From MODEL on the command line to an opened file, to the name by which clients ask for it, and to the engine.
#ifndef BATON_CLI_MODEL_LOADING_H_
#define BATON_CLI_MODEL_LOADING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/model_device.h"
#include "engine/cpu_model.h"
#include "modelfile/model_file.h"
#include "router/served_model.h"

namespace baton::cli {

struct LoadedModelFile {
  // The name by which clients ask for it: the one that the user gave, else the name in the store, of the file without
  // folder and ".gguf", or of the directory. Every process of a cluster has the same.
  std::string name;
  std::string path;
  std::unique_ptr<modelfile::ModelFile> file;

  // The same status, with the path before its message.
  absl::Status Blame(const absl::Status& status) const;
};

// Finds MODEL without opening it: `file` is null.
absl::StatusOr<LoadedModelFile> ResolveModelFile(const std::string& model);
absl::StatusOr<LoadedModelFile> LoadModelFile(const std::string& model, const std::string& served_name = "");

// What a router serves. An error names the file.
absl::StatusOr<router::ServedModel> LoadServedModel(const std::string& model, const std::string& served_name = "");

// One line about what options.weights does to the file; empty when the option is not set.
std::string DescribeWeights(const LoadedModelFile& loaded, const engine::CpuModelOptions& options);

// Loads the model on the device. An error names the file. Shows a progress line if asked to and if loading takes long.
absl::StatusOr<std::unique_ptr<engine::ModelRunner>> LoadRunner(const LoadedModelFile& loaded,
                                                                engine::CpuModelOptions options,
                                                                const ModelDevice& device, bool shows_progress);

// For people to read.
double Mib(int64_t bytes);

}  // namespace baton::cli

#endif  // BATON_CLI_MODEL_LOADING_H_
