#include "cli/model_loading.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/progress_line.h"
#include "common/status.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kLongLoad = absl::Seconds(1);

}  // namespace

absl::Status LoadedModelFile::Blame(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<LoadedModelFile> ResolveModelFile(const std::string& model) {
  LoadedModelFile loaded;
  BATON_ASSIGN_OR_RETURN(loaded.path, modelfile::ResolveModel(model));
  // "." and "models/name/" have no file name; the name of their folder stands for it.
  std::filesystem::path file = std::filesystem::absolute(loaded.path).lexically_normal();
  if (file.filename().empty()) file = file.parent_path();
  loaded.name = (file.extension() == ".gguf" ? file.stem() : file.filename()).string();
  return loaded;
}

absl::StatusOr<LoadedModelFile> LoadModelFile(const std::string& model, const std::string& served_name) {
  BATON_ASSIGN_OR_RETURN(LoadedModelFile loaded, ResolveModelFile(model));
  if (!served_name.empty()) loaded.name = served_name;
  BATON_ASSIGN_OR_RETURN(loaded.file, modelfile::OpenModelFile(loaded.path));
  return loaded;
}

absl::StatusOr<router::ServedModel> LoadServedModel(const std::string& model, const std::string& served_name) {
  BATON_ASSIGN_OR_RETURN(const LoadedModelFile loaded, LoadModelFile(model, served_name));
  absl::StatusOr<router::ServedModel> served = router::ServedModel::Create(loaded.name, *loaded.file);
  if (!served.ok()) return loaded.Blame(served.status());
  return served;
}

std::string DescribeWeights(const LoadedModelFile& loaded, const engine::CpuModelOptions& options) {
  if (options.weights == engine::Weights::kAuto) return "";
  if (!engine::IsRounded(*loaded.file, options.weights)) {
    return absl::StrCat(loaded.name, " has no float matrices: its weights stay as the file has them");
  }
  const int64_t before = engine::PackedWeightBytes(*loaded.file, engine::Numerics::kExact, engine::Weights::kAuto);
  const int64_t after = engine::PackedWeightBytes(*loaded.file, engine::Numerics::kExact, options.weights);
  return absl::StrFormat("quantizing the float matrices of %s to %s: %.1f MiB instead of %.1f", loaded.name,
                         ToAbsl(engine::WeightsName(options.weights)), Mib(after), Mib(before));
}

absl::StatusOr<std::unique_ptr<engine::ModelRunner>> LoadRunner(const LoadedModelFile& loaded,
                                                                engine::CpuModelOptions options,
                                                                const ModelDevice& device, bool shows_progress) {
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<engine::ModelRunner>> {
    auto runner = device.plugin == nullptr ? engine::LoadCpuModel(*loaded.file, options)
                                           : device.plugin->load(*loaded.file, {.ordinal = device.ordinal,
                                                                                .weights = options.weights,
                                                                                .max_rows = options.max_rows,
                                                                                .max_sequences = options.max_sequences,
                                                                                .progress = options.progress});
    if (!runner.ok()) return loaded.Blame(runner.status());
    return runner;
  };
  if (!shows_progress) return load();
  engine::LoadProgress progress;
  options.progress = &progress;
  const ProgressLine line(
      [&] {
        const double packed = Mib(progress.packed_bytes);
        const double total = Mib(progress.total_bytes);
        return absl::StrFormat("loading %s %s %.0f/%.0f MiB", loaded.name, ProgressBar(total > 0 ? packed / total : 0),
                               packed, total);
      },
      kLongLoad);
  return load();
}

double Mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace baton::cli
