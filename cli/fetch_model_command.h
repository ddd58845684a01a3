// `baton fetch-model NAME`: puts a model into the model store.
#ifndef BATON_CLI_FETCH_MODEL_COMMAND_H_
#define BATON_CLI_FETCH_MODEL_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddFetchModelCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_FETCH_MODEL_COMMAND_H_
