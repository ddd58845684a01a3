#include "cli/yaml_config.h"

#include <cctype>
#include <cstdlib>

#include "yaml-cpp/yaml.h"

namespace baton::cli {
namespace {

bool SetInEnvironment(const std::string& key) {
  std::string name = "BATON_ARG_";
  for (char c : key) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return std::getenv(name.c_str()) != nullptr;
}

}  // namespace

std::string YamlConfig::to_config(const CLI::App* app, bool, bool, std::string) const {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const CLI::Option* option : app->get_options({})) {
    if (option->get_lnames().empty() || option->count() == 0) continue;
    out << YAML::Key << option->get_lnames().front() << YAML::Value << option->results().front();
  }
  out << YAML::EndMap;
  return out.c_str();
}

std::vector<CLI::ConfigItem> YamlConfig::from_config(std::istream& input) const {
  std::vector<CLI::ConfigItem> items;
  // yaml-cpp and CLI11 speak in exceptions; they end here and in CLI11's own parse.
  try {
    const YAML::Node root = YAML::Load(input);
    if (root.IsNull()) return items;
    if (!root.IsMap()) throw CLI::FileError("the configuration is not a map of flags to values");
    for (const auto& entry : root) {
      CLI::ConfigItem item;
      item.name = entry.first.as<std::string>();
      if (SetInEnvironment(item.name)) continue;
      if (entry.second.IsSequence()) {
        for (const YAML::Node& value : entry.second) item.inputs.push_back(value.as<std::string>());
      } else {
        item.inputs.push_back(entry.second.as<std::string>());
      }
      items.push_back(std::move(item));
    }
  } catch (const YAML::Exception& error) {
    throw CLI::FileError(std::string("the configuration is not YAML of flags and values: ") + error.what());
  }
  return items;
}

}  // namespace baton::cli
