// MODEL of the command line to an opened file and the name by which clients ask for it, and on to the engine.
#ifndef BATON_CLI_MODEL_LOADING_H_
#define BATON_CLI_MODEL_LOADING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/cpu_model.h"
#include "modelfile/model_file.h"

namespace baton::cli {

struct LoadedModelFile {
  // The store's name, or the file's without folder and ".gguf", or the directory's: the same in every process of a
  // cluster.
  std::string name;
  std::unique_ptr<modelfile::ModelFile> file;
};

absl::StatusOr<LoadedModelFile> LoadModelFile(const std::string& model);

// What options.weights does to the file, as one line; empty when nothing was asked for.
std::string DescribeWeights(const LoadedModelFile& loaded, const engine::CpuModelOptions& options);

// engine::LoadCpuModel, with a progress line when that is wanted and loading takes long.
absl::StatusOr<std::unique_ptr<engine::ModelRunner>> LoadRunner(const LoadedModelFile& loaded,
                                                                engine::CpuModelOptions options, bool shows_progress);

// For people to read.
double Mib(int64_t bytes);

}  // namespace baton::cli

#endif  // BATON_CLI_MODEL_LOADING_H_
