// `baton models`: what the model store has, and what can be had; `baton models remove NAME`.
#ifndef BATON_CLI_MODELS_COMMAND_H_
#define BATON_CLI_MODELS_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddModelsCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_MODELS_COMMAND_H_
