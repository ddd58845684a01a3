#include "cli/config_file.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/flag_values.h"
#include "cli/forwarded_options.h"
#include "cli/input_file.h"
#include "cli/options.h"
#include "common/status.h"
#include "yaml-cpp/yaml.h"

namespace baton::cli {
namespace {

constexpr size_t kMaxConfigBytes = 1u << 20;

struct Setting {
  // "FILE: serve.threads"
  std::string where;
  std::string key;
  std::vector<std::string> values;
};

// The settings of each section; "" is the top of the file.
using Settings = std::map<std::string, std::vector<Setting>>;

CLI::Option* FindKey(CLI::App& command, const std::string& key) {
  CLI::Option* const option = command.get_option_no_throw("--" + key);
  return option != nullptr && IsSettable(*option) && key != "config" ? option : nullptr;
}

// At the top of a file a flag goes by its first name alone: `model` is then the model itself and never the name under
// which clients ask for it.
CLI::Option* FindTopKey(CLI::App& command, const std::string& key) {
  CLI::Option* const option = FindKey(command, key);
  return option != nullptr && option->get_lnames().front() == key ? option : nullptr;
}

void AddKeys(CLI::App& command, std::vector<std::string>& keys) {
  for (const CLI::Option* option : AllOptions(command)) {
    if (IsSettable(*option)) keys.push_back(option->get_lnames().front());
  }
}

std::vector<std::string> Args(const Setting& setting) {
  std::vector<std::string> args;
  for (const std::string& value : setting.values) args.push_back(absl::StrCat("--", setting.key, "=", value));
  return args;
}

// Reads a whole file, so that a mistake in it is found by whichever process reads it first.
class ConfigReader {
 public:
  ConfigReader(CLI::App& app, std::string path) : path_(std::move(path)), commands_(CommandsByName(app)) {}

  absl::StatusOr<Settings> Read() {
    absl::StatusOr<std::string> text = ReadInputFile("--config", path_, kMaxConfigBytes);
    if (!text.ok()) return text.status();
    // yaml-cpp reports errors by exception. None leaves this function.
    try {
      const YAML::Node root = YAML::Load(*text);
      if (root.IsNull()) return Settings();
      if (!root.IsMap()) return Bad("expected a map of flags to values");
      for (const auto& entry : root) BATON_RETURN_IF_ERROR(ReadTop(entry.first, entry.second));
    } catch (const YAML::Exception& error) {
      return Bad(absl::StrCat("line ", error.mark.line + 1, ": ", error.msg));
    }
    return std::move(settings_);
  }

 private:
  absl::Status Bad(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("--config ", path_, ": ", what));
  }

  absl::StatusOr<std::string> ReadKey(const YAML::Node& node) {
    if (!node.IsScalar()) {
      return Bad(absl::StrCat("line ", node.Mark().line + 1, ": expected the name of a flag as key"));
    }
    return node.as<std::string>();
  }

  absl::Status ReadTop(const YAML::Node& key_node, const YAML::Node& value) {
    BATON_ASSIGN_OR_RETURN(const std::string key, ReadKey(key_node));
    if (value.IsMap()) return ReadSection(key, value);
    const bool known = std::any_of(commands_.begin(), commands_.end(),
                                   [&key](const auto& entry) { return FindTopKey(*entry.second, key) != nullptr; });
    if (!known) {
      std::vector<std::string> keys;
      for (const auto& [name, command] : commands_) {
        keys.push_back(name);
        AddKeys(*command, keys);
      }
      return Bad(absl::StrCat(key, ": no command has this flag", Suggestion(key, keys)));
    }
    return Add("", key, value);
  }

  absl::Status ReadSection(const std::string& section, const YAML::Node& map) {
    const auto command = commands_.find(section);
    if (command == commands_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, unused] : commands_) names.push_back(name);
      return Bad(absl::StrCat(section, ": expected a value, or a section under the name of a command",
                              Suggestion(section, names)));
    }
    for (const auto& entry : map) {
      BATON_ASSIGN_OR_RETURN(const std::string key, ReadKey(entry.first));
      if (FindKey(*command->second, key) == nullptr) {
        std::vector<std::string> keys;
        AddKeys(*command->second, keys);
        return Bad(absl::StrCat(section, ".", key, ": `baton ", section, "` has no such flag", Suggestion(key, keys)));
      }
      BATON_RETURN_IF_ERROR(Add(section, key, entry.second));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const std::string& section, const std::string& key, const YAML::Node& value) {
    const std::string name = section.empty() ? key : absl::StrCat(section, ".", key);
    if (!seen_.insert(name).second) return Bad(absl::StrCat(name, ": this key comes twice"));
    Setting setting{.where = absl::StrCat("--config ", path_, ": ", name), .key = key, .values = {}};
    const auto add = [&setting](const YAML::Node& item) {
      if (item.IsScalar()) setting.values.push_back(item.as<std::string>());
      return item.IsScalar();
    };
    const bool read = value.IsSequence() ? std::all_of(value.begin(), value.end(), add) : add(value);
    if (!read || setting.values.empty()) return Bad(absl::StrCat(name, ": expected a value or a list of values"));
    settings_[section].push_back(std::move(setting));
    return absl::OkStatus();
  }

  const std::string path_;
  const std::map<std::string, CLI::App*> commands_;
  std::set<std::string> seen_;
  Settings settings_;
};

// What the file holds for one command: what its section says, and what the top of the file says about its other flags.
std::vector<Setting> SettingsOf(CLI::App& command, const std::string& name, const Settings& settings) {
  std::vector<Setting> own;
  std::set<const CLI::Option*> set;
  const auto add = [&](const std::string& section, CLI::Option* (*find)(CLI::App&, const std::string&)) {
    const auto found = settings.find(section);
    if (found == settings.end()) return;
    for (const Setting& setting : found->second) {
      const CLI::Option* const option = find(command, setting.key);
      if (option != nullptr && set.insert(option).second) own.push_back(setting);
    }
  };
  add(name, FindKey);
  add("", FindTopKey);
  return own;
}

absl::Status CheckSetting(CLI::App& command, const Setting& setting) {
  absl::Status checked = CheckValues(*FindKey(command, setting.key), setting.values);
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(absl::StrCat(setting.where, ": ", checked.message()));
}

// What the sections of its children's commands hold, where `serve` itself was not told otherwise by flag or
// environment.
absl::Status AddRoleFlags(CLI::App& app, const Settings& settings, const std::vector<std::string>& given,
                          std::vector<std::string>& args) {
  CLI::App& serve = *app.get_subcommand("serve");
  for (const char* const role : kRoles) {
    const auto section = settings.find(role);
    if (section == settings.end()) continue;
    CLI::App& command = *app.get_subcommand(role);
    for (const Setting& setting : section->second) {
      BATON_RETURN_IF_ERROR(CheckSetting(command, setting));
      if (FindKey(command, setting.key)->get_group() == kAddressGroup) continue;
      const CLI::Option* const of_serve = FindKey(serve, setting.key);
      if (of_serve != nullptr && (IsGiven(*of_serve, given) || IsInEnvironment(*of_serve))) continue;
      for (const std::string& arg : Args(setting)) args.push_back(RoleFlag(role, arg));
    }
  }
  return absl::OkStatus();
}

// The file that flag or environment names. INVALID_ARGUMENT when the flag has no value.
absl::StatusOr<std::optional<std::string>> ConfigPath(CLI::App& command, const std::vector<std::string>& args) {
  const CLI::Option* const option = command.get_option_no_throw("--config");
  if (option == nullptr) return std::nullopt;
  const auto flag = std::find_if(args.begin(), args.end(), [](const std::string& arg) {
    return arg == "--config" || absl::StartsWith(arg, "--config=");
  });
  if (flag == args.end()) {
    if (!IsInEnvironment(*option)) return std::nullopt;
    return std::getenv(option->get_envname().c_str());
  }
  if (const size_t equals = flag->find('='); equals != std::string::npos) return flag->substr(equals + 1);
  if (flag + 1 == args.end()) return absl::InvalidArgumentError("--config: expected the path of a YAML file");
  return *(flag + 1);
}

// The flags of a command within another have other twins than the same flags of a plain command.
void FinishCommand(CLI::App& command, const std::string& prefix) {
  command.add_option("--config", "a YAML file that holds flags, without their dashes");
  for (CLI::Option* option : AllOptions(command)) {
    if (!IsSettable(*option)) continue;
    option->envname(EnvironmentName(prefix + option->get_lnames().front()));
    Tidy(*option);
  }
}

}  // namespace

std::string EnvironmentName(const std::string& flag) {
  std::string name = kVariablePrefix;
  for (char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

void FinishOptions(CLI::App& app) {
  for (const auto& [name, command] : CommandsByName(app)) {
    const bool nested = name != command->get_name();
    FinishCommand(*command, nested ? name + "-" : "");
  }
}

absl::Status CheckEnvironment(CLI::App& app) {
  std::vector<std::string> known;
  for (const auto& [unused, command] : CommandsByName(app)) {
    for (const CLI::Option* option : AllOptions(*command)) known.push_back(option->get_envname());
  }
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('='));
    if (!absl::StartsWith(name, kVariablePrefix)) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " in the environment: no command has this flag", Suggestion(name, known)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ExpandConfig(CLI::App& app, const std::vector<std::string>& args) {
  CLI::App& command = CommandOf(app, args);
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> path, ConfigPath(command, args));
  if (!path.has_value()) return args;
  BATON_ASSIGN_OR_RETURN(const Settings settings, ConfigReader(app, *path).Read());
  std::vector<std::string> expanded = args;
  std::string name;
  for (const auto& [its_name, candidate] : CommandsByName(app)) {
    if (candidate == &command) name = its_name;
  }
  for (const Setting& setting : SettingsOf(command, name, settings)) {
    BATON_RETURN_IF_ERROR(CheckSetting(command, setting));
    const CLI::Option& option = *FindKey(command, setting.key);
    if (IsGiven(option, args) || IsInEnvironment(option)) continue;
    const std::vector<std::string> more = Args(setting);
    expanded.insert(expanded.end(), more.begin(), more.end());
  }
  if (name == "serve") BATON_RETURN_IF_ERROR(AddRoleFlags(app, settings, args, expanded));
  return expanded;
}

}  // namespace baton::cli
