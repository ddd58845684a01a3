// `baton status`: the router's workers and their blocks.
#ifndef BATON_CLI_STATUS_COMMAND_H_
#define BATON_CLI_STATUS_COMMAND_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "baton/v1/admin.pb.h"

namespace baton::cli {

void AddStatusCommand(CLI::App& app, int& exit_code);

// Asks the router. DEADLINE_EXCEEDED when it does not answer in time.
absl::StatusOr<v1::GetStatusResponse> GetStatus(const std::string& target);

}  // namespace baton::cli

#endif  // BATON_CLI_STATUS_COMMAND_H_
