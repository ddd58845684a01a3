#include "cli/fetch_model_command.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/status.h"
#include "modelfile/model_file.h"

namespace baton::cli {
namespace {

// Relative to the folder of the program, where `cmake --install` puts it and where a build has a link
// (cmake/install.cmake).
constexpr char kScript[] = "../share/baton/scripts/fetch_model.sh";

absl::StatusOr<std::string> FindScript() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path script = (program.parent_path() / kScript).lexically_normal();
  if (!error && std::filesystem::is_regular_file(script, error)) return script.string();
  return absl::NotFoundError(absl::StrCat("there is no ", script.string(),
                                          ", which comes with the program: copy the whole folder of an installation, "
                                          "or put the model's file into the model store yourself"));
}

// Becomes the script; returns only when that fails.
absl::Status FetchModel(const std::string& name) {
  BATON_ASSIGN_OR_RETURN(const std::string script, FindScript());
  execlp("bash", "bash", script.c_str(), name.c_str(), nullptr);
  return absl::NotFoundError(absl::StrCat("cannot run bash: ", std::generic_category().message(errno)));
}

}  // namespace

void AddFetchModelCommand(CLI::App& app, int& exit_code) {
  auto name = std::make_shared<std::string>(modelfile::kDefaultModel);
  CLI::App* command = app.add_subcommand("fetch-model", "downloads a model into the model store");
  command->add_option("NAME", *name, "which model")
      ->check(CLI::IsMember(
          std::vector<std::string>(modelfile::kFetchableModels.begin(), modelfile::kFetchableModels.end())))
      ->capture_default_str();
  command->callback([name, &exit_code] { exit_code = Report(FetchModel(*name)); });
}

}  // namespace baton::cli
