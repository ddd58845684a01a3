#include "cli/model_loading.h"

#include <filesystem>

#include "common/status.h"

namespace baton::cli {

absl::StatusOr<LoadedModelFile> LoadModelFile(const std::string& model) {
  BATON_ASSIGN_OR_RETURN(const std::string path, modelfile::ResolveModel(model));
  LoadedModelFile loaded;
  loaded.name = std::filesystem::path(path).stem().string();
  BATON_ASSIGN_OR_RETURN(loaded.file, modelfile::OpenModelFile(path));
  return loaded;
}

}  // namespace baton::cli
