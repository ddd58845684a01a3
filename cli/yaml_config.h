// CLI11's configuration reader for YAML: a flat map of flag names to values or lists.
#ifndef BATON_CLI_YAML_CONFIG_H_
#define BATON_CLI_YAML_CONFIG_H_

#include <istream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace baton::cli {

class YamlConfig final : public CLI::Config {
 public:
  std::string to_config(const CLI::App* app, bool default_also, bool write_description,
                        std::string prefix) const override;
  // Throws CLI's errors, as CLI11 asks for. Keys whose environment twin is set are left to it.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

}  // namespace baton::cli

#endif  // BATON_CLI_YAML_CONFIG_H_
