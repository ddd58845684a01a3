// `baton chat`: a conversation with the model of a running cluster.
#ifndef BATON_CLI_CHAT_COMMAND_H_
#define BATON_CLI_CHAT_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddChatCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_CHAT_COMMAND_H_
