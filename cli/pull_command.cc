#include "cli/pull_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/flag_values.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/status.h"
#include "modelfile/model_description.h"
#include "modelfile/model_file.h"
#include "modelfile/model_store.h"

namespace baton::cli {
namespace {

// Relative to the folder of the program, where `cmake --install` puts it and where a build has a link
// (cmake/install.cmake).
constexpr char kScript[] = "../share/baton/scripts/fetch_model.sh";

bool IsModelPath(std::string_view text) { return text.find('/') != text.npos || text.ends_with(".gguf"); }

CLI::Validator FetchableModels() {
  return CLI::IsMember(
      std::vector<std::string>(modelfile::kFetchableModels.begin(), modelfile::kFetchableModels.end()));
}

CLI::Validator ModelPath() {
  return CLI::Validator(
      [](std::string& text) { return IsModelPath(text) ? std::string() : "not the path of a model: " + text; },
      kModelPathType);
}

absl::StatusOr<std::string> FindScript() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path script = (program.parent_path() / kScript).lexically_normal();
  if (!error && std::filesystem::is_regular_file(script, error)) return script.string();
  return absl::NotFoundError(absl::StrCat("there is no ", script.string(),
                                          ", which comes with the program: copy the whole folder of an installation, "
                                          "or put the model's file into the model store yourself"));
}

// A path in the form in which its last part is the model's name. The model is read before it is copied, so that the
// store gets nothing that is damaged.
absl::StatusOr<std::string> CheckedPath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  BATON_RETURN_IF_ERROR(modelfile::DescribeModelFile(whole.string()).status());
  const std::string name = whole.filename().string();
  if (!std::filesystem::is_directory(whole, error) && !name.ends_with(".gguf")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the store's files are called NAME.gguf: rename it"));
  }
  if (modelfile::IsStoreName(name)) return whole.string();
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": a name in the store has letters, digits, '.', '_' and '-', and begins with a letter or a digit: rename it"));
}

// The script runs in another folder, where a relative path would name another store.
void MakeStoreAbsolute() {
  const absl::StatusOr<std::string> store = modelfile::ModelStoreDirectory();
  std::error_code error;
  if (!store.ok()) return;
  const std::filesystem::path whole = std::filesystem::absolute(*store, error);
  if (!error) setenv("BATON_MODEL_STORE", whole.c_str(), /*replace=*/1);
}

// Becomes the script; returns only when that fails.
absl::Status Pull(std::string model) {
  if (IsModelPath(model)) {
    BATON_ASSIGN_OR_RETURN(model, CheckedPath(model));
  }
  BATON_ASSIGN_OR_RETURN(const std::string script, FindScript());
  MakeStoreAbsolute();
  execlp("bash", "bash", script.c_str(), model.c_str(), nullptr);
  return absl::NotFoundError(absl::StrCat("cannot run bash: ", std::generic_category().message(errno)));
}

void AddPull(CLI::App& app, const char* command_name, const char* help, const char* position,
             const CLI::Validator& models, int& exit_code) {
  auto model = std::make_shared<std::string>(modelfile::kDefaultModel);
  CLI::App* command = app.add_subcommand(command_name, help);
  command->add_option(position, *model, "which model")->check(models)->capture_default_str();
  command->callback([model, &exit_code] { exit_code = Report(Pull(*model)); });
}

}  // namespace

void AddPullCommands(CLI::App& app, int& exit_code) {
  AddPull(app, "pull", "downloads a model into the model store, or copies one that is at hand", "MODEL",
          FetchableModels() | ModelPath(), exit_code);
  AddPull(app, "fetch-model", "the older name of pull, for models that are downloaded", "NAME", FetchableModels(),
          exit_code);
}

}  // namespace baton::cli
