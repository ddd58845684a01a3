// `baton status`: the router's workers and their blocks.
#ifndef BATON_CLI_STATUS_COMMAND_H_
#define BATON_CLI_STATUS_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddStatusCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_STATUS_COMMAND_H_
