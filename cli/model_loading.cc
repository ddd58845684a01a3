#include "cli/model_loading.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/progress_line.h"
#include "common/status.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kLongLoad = absl::Seconds(1);
constexpr double kMib = 1 << 20;

}  // namespace

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

std::string DescribeWeights(const LoadedModelFile& loaded, const engine::CpuModelOptions& options) {
  if (options.weights == engine::Weights::kAuto) return "";
  if (!engine::IsRounded(*loaded.file, options.weights)) {
    return absl::StrCat(loaded.name, " has no float matrices: its weights stay as the file has them");
  }
  const int64_t before = engine::PackedWeightBytes(*loaded.file, engine::Numerics::kExact, engine::Weights::kAuto);
  const int64_t after = engine::PackedWeightBytes(*loaded.file, engine::Numerics::kExact, options.weights);
  return absl::StrFormat("quantizing the float matrices of %s to %s: %.1f MiB instead of %.1f", loaded.name,
                         options.weights == engine::Weights::kInt8 ? "int8" : "int4", static_cast<double>(after) / kMib,
                         static_cast<double>(before) / kMib);
}

absl::StatusOr<std::unique_ptr<engine::ModelRunner>> LoadWithProgress(const LoadedModelFile& loaded,
                                                                      engine::CpuModelOptions options) {
  engine::LoadProgress progress;
  options.progress = &progress;
  const ProgressLine line(
      [&] {
        const double packed = static_cast<double>(progress.packed_bytes) / kMib;
        const double total = static_cast<double>(progress.total_bytes) / kMib;
        return absl::StrFormat("loading %s %s %.0f/%.0f MiB", loaded.name, ProgressBar(total > 0 ? packed / total : 0),
                               packed, total);
      },
      kLongLoad);
  return engine::LoadCpuModel(*loaded.file, options);
}

}  // namespace baton::cli
