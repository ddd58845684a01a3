// `baton ledger`: who holds the KV blocks of every worker, and whether the router knows of it.
#ifndef BATON_CLI_LEDGER_COMMAND_H_
#define BATON_CLI_LEDGER_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

// The command exits with kExitFailed when some worker holds blocks that nobody will give back.
void AddLedgerCommand(CLI::App& app, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_LEDGER_COMMAND_H_
