// `baton router`: the process that clients talk to.
#ifndef BATON_CLI_ROUTER_COMMAND_H_
#define BATON_CLI_ROUTER_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

// Adds the subcommand; the callback sets `exit_code`.
void AddRouterCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_ROUTER_COMMAND_H_
