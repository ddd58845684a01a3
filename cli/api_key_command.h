// `baton api-key TENANT`: draws an API key.
#ifndef BATON_CLI_API_KEY_COMMAND_H_
#define BATON_CLI_API_KEY_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddApiKeyCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_API_KEY_COMMAND_H_
