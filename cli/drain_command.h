#ifndef BATON_CLI_DRAIN_COMMAND_H_
#define BATON_CLI_DRAIN_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

// `baton drain WORKER`: tells a worker to take no new work, to let its requests go on elsewhere, and to end. The
// command ends when the worker has left its router.
void AddDrainCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_DRAIN_COMMAND_H_
