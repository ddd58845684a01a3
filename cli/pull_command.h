// `baton pull NAME|PATH`: puts a model into the model store. `baton fetch-model NAME` is its older name.
#ifndef BATON_CLI_PULL_COMMAND_H_
#define BATON_CLI_PULL_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddPullCommands(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_PULL_COMMAND_H_
