// `baton serve`: a local cluster under one supervisor.
#ifndef BATON_CLI_SERVE_COMMAND_H_
#define BATON_CLI_SERVE_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddServeCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_SERVE_COMMAND_H_
