#include "cli/model_loading.h"

#include <filesystem>

#include "common/status.h"

namespace baton::cli {

absl::StatusOr<LoadedModelFile> LoadModelFile(const std::string& model) {
  BATON_ASSIGN_OR_RETURN(const std::string path, modelfile::ResolveModel(model));
  LoadedModelFile loaded;
  // "." and "models/name/" have no last part of their own.
  std::filesystem::path file = std::filesystem::absolute(path).lexically_normal();
  if (file.filename().empty()) file = file.parent_path();
  loaded.name = (file.extension() == ".gguf" ? file.stem() : file.filename()).string();
  BATON_ASSIGN_OR_RETURN(loaded.file, modelfile::OpenModelFile(path));
  return loaded;
}

}  // namespace baton::cli
