#ifndef BATON_CLI_HEALTH_COMMAND_H_
#define BATON_CLI_HEALTH_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

// `baton health`: asks a process of ours, or any server with grpc.health.v1, whether it serves.
void AddHealthCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_HEALTH_COMMAND_H_
