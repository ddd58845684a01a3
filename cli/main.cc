// The one binary: every process of a cluster, and its tools.
#include "CLI/CLI.hpp"
#include "cli/generate_command.h"
#include "cli/inspect_command.h"
#include "cli/options.h"
#include "cli/router_command.h"
#include "cli/serve_command.h"
#include "cli/status_command.h"
#include "cli/worker_command.h"

int main(int argc, char** argv) {
  using namespace baton::cli;
  CLI::App app{"Baton serves large language models with prefill and decode on separate workers."};
  app.require_subcommand(1);
  int exit_code = kExitDone;
  AddServeCommand(app, exit_code);
  AddGenerateCommand(app, exit_code);
  AddChatCommand(app, exit_code);
  AddStatusCommand(app, exit_code);
  AddTokenizeCommands(app, exit_code);
  AddInspectCommand(app, exit_code);
  AddRouterCommand(app, exit_code);
  AddWorkerCommands(app, exit_code);
  AddVersionCommand(app, exit_code);
  FinishOptions(app);
  // CLI11 reports by exception; help and the like are no errors.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  return exit_code;
}
