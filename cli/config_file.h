// `--config FILE.yaml`: the same keys as the flags. A flag wins over the environment, the environment over the file.
#ifndef BATON_CLI_CONFIG_FILE_H_
#define BATON_CLI_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace baton::cli {

// "grpc-port" gives BATON_ARG_GRPC_PORT.
std::string EnvironmentName(const std::string& flag);

// Returns `args` with `--config FILE` replaced by those flags of the file that neither `args` nor the environment set.
// `app` has the commands and the names of their environment variables. NOT_FOUND for a file that cannot be read,
// INVALID_ARGUMENT for one that is not a map of flags to values or lists.
absl::StatusOr<std::vector<std::string>> ExpandConfig(const CLI::App& app, const std::vector<std::string>& args);

}  // namespace baton::cli

#endif  // BATON_CLI_CONFIG_FILE_H_
