// `--config FILE.yaml`, and the environment. A flag wins over the environment, the environment over the file.
//
// A file holds flags without their dashes. Those at its top are for every command that has such a flag. A map under a
// command's name ("serve", "prefill-worker", "bench-engine") is for that command alone and wins over the top. `serve`
// also gives the processes that it starts what the file holds for them, but for their addresses, which are its own.
#ifndef BATON_CLI_CONFIG_FILE_H_
#define BATON_CLI_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace baton::cli {

// Each flag has a twin among the environment variables, whose name begins with this.
inline constexpr char kVariablePrefix[] = "BATON_ARG_";

// "grpc-port" gives BATON_ARG_GRPC_PORT.
std::string EnvironmentName(const std::string& flag);

// Gives each command `--config FILE.yaml`, and every option but those of kInternalGroup an environment variable, its
// twin: BATON_ARG_..., or BATON_ARG_BENCH_ENGINE_... for a command within another.
void FinishOptions(CLI::App& app);

// INVALID_ARGUMENT for a variable BATON_ARG_... that is no command's.
absl::Status CheckEnvironment(CLI::App& app);

// Returns `args` and those flags of the file that neither `args` nor the environment set; `args` alone when neither
// names a file. `app` has the commands and is not parsed yet. NOT_FOUND for a file that cannot be read; otherwise
// INVALID_ARGUMENT names file, key and what was expected there.
absl::StatusOr<std::vector<std::string>> ExpandConfig(CLI::App& app, const std::vector<std::string>& args);

}  // namespace baton::cli

#endif  // BATON_CLI_CONFIG_FILE_H_
