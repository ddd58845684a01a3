// `baton prefill-worker`, `decode-worker` and `mixed-worker`: one process each, as deployed.
#ifndef BATON_CLI_WORKER_COMMAND_H_
#define BATON_CLI_WORKER_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

void AddWorkerCommands(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_WORKER_COMMAND_H_
