// `baton generate`: a client of a running cluster.
#ifndef BATON_CLI_GENERATE_COMMAND_H_
#define BATON_CLI_GENERATE_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddGenerateCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_GENERATE_COMMAND_H_
