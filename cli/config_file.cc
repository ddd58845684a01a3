#include "cli/config_file.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "yaml-cpp/yaml.h"

namespace baton::cli {
namespace {

constexpr char kConfigFlag[] = "--config";

bool Names(const std::string& arg, const std::string& flag) { return arg == flag || arg.starts_with(flag + "="); }

void AppendFlag(const std::string& flag, const YAML::Node& value, std::vector<std::string>& args) {
  if (!value.IsSequence()) {
    args.push_back(absl::StrCat("--", flag, "=", value.as<std::string>()));
    return;
  }
  for (const YAML::Node& item : value) args.push_back(absl::StrCat("--", flag, "=", item.as<std::string>()));
}

// The command that the first words of `args` name.
const CLI::App& CommandOf(const CLI::App& app, const std::vector<std::string>& args) {
  const CLI::App* command = &app;
  for (const std::string& arg : args) {
    const auto named = command->get_subcommands([&arg](const CLI::App* sub) { return sub->get_name() == arg; });
    if (named.empty()) break;
    command = named.front();
  }
  return *command;
}

bool IsInEnvironment(const CLI::App& command, const std::string& flag) {
  const CLI::Option* const option = command.get_option_no_throw("--" + flag);
  return option != nullptr && std::getenv(option->get_envname().c_str()) != nullptr;
}

absl::StatusOr<std::vector<std::string>> ReadFlags(const CLI::App& command, const std::string& path,
                                                   const std::vector<std::string>& args) {
  std::vector<std::string> flags;
  // yaml-cpp reports errors by exception. None leaves this function.
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(path, " is not a map of flags to values"));
    for (const auto& entry : root) {
      const std::string flag = entry.first.as<std::string>();
      const auto given = [&](const std::string& arg) { return Names(arg, "--" + flag); };
      const bool is_set = std::any_of(args.begin(), args.end(), given) || IsInEnvironment(command, flag);
      if (!is_set) AppendFlag(flag, entry.second, flags);
    }
  } catch (const YAML::BadFile&) {
    return absl::NotFoundError(absl::StrCat("--config: cannot read ", path));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("--config ", path, ": ", error.what()));
  }
  return flags;
}

}  // namespace

std::string EnvironmentName(const std::string& flag) {
  std::string name = "BATON_ARG_";
  for (char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

absl::StatusOr<std::vector<std::string>> ExpandConfig(const CLI::App& app, const std::vector<std::string>& args) {
  const auto config = std::find_if(args.begin(), args.end(), [](const auto& arg) { return Names(arg, kConfigFlag); });
  if (config == args.end()) return args;
  const bool joined = *config != kConfigFlag;
  if (!joined && config + 1 == args.end()) return absl::InvalidArgumentError("--config needs a file");
  const std::string path = joined ? config->substr(sizeof(kConfigFlag)) : *(config + 1);
  std::vector<std::string> expanded(args.begin(), config);
  expanded.insert(expanded.end(), config + (joined ? 1 : 2), args.end());
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> flags, ReadFlags(CommandOf(app, expanded), path, expanded));
  expanded.insert(expanded.end(), flags.begin(), flags.end());
  return expanded;
}

}  // namespace baton::cli
