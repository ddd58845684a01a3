// Commands that need no cluster: `baton tokenize`, `detokenize`, `inspect` and `version`.
#ifndef BATON_CLI_INSPECT_COMMAND_H_
#define BATON_CLI_INSPECT_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddTokenizeCommands(CLI::App& app, int& exit_code);
void AddInspectCommand(CLI::App& app, int& exit_code);
void AddVersionCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_INSPECT_COMMAND_H_
