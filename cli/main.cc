// The one binary: every process of a cluster, and its tools.
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "cli/bench_engine_command.h"
#include "cli/bench_router_command.h"
#include "cli/bench_serve_command.h"
#include "cli/config_file.h"
#include "cli/generate_command.h"
#include "cli/inspect_command.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/router_command.h"
#include "cli/serve_command.h"
#include "cli/status_command.h"
#include "cli/worker_command.h"
#include "google/protobuf/stubs/logging.h"

namespace baton::cli {
namespace {

int Main(int argc, char** argv) {
  QuietGrpc();
  google::protobuf::SetLogHandler(nullptr);
  // Debian's abseil looks for cycles of locks at every lock, behind one lock of its own. The tests keep that check.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app{"Baton serves large language models with prefill and decode on separate workers."};
  app.require_subcommand(1);
  int exit_code = kExitDone;
  AddServeCommand(app, exit_code);
  AddGenerateCommand(app, exit_code);
  AddChatCommand(app, exit_code);
  AddStatusCommand(app, exit_code);
  AddTokenizeCommands(app, exit_code);
  AddInspectCommand(app, exit_code);
  CLI::App* bench = app.add_subcommand("bench", "measures the engine, or a server under load")->require_subcommand(1);
  AddBenchEngineCommand(*bench, exit_code);
  AddBenchServeCommand(*bench, exit_code);
  AddBenchRouterCommand(*bench, exit_code);
  AddRouterCommand(app, exit_code);
  AddWorkerCommands(app, exit_code);
  AddVersionCommand(app, exit_code);
  FinishOptions(app);
  absl::StatusOr<std::vector<std::string>> args = ExpandConfig(app, std::vector<std::string>(argv + 1, argv + argc));
  if (!args.ok()) {
    PrintError(args.status());
    return kExitUsage;
  }
  // CLI11 reports by exception, even a request for help, which is no error.
  try {
    app.parse(std::vector<std::string>(args->rbegin(), args->rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  return exit_code;
}

}  // namespace
}  // namespace baton::cli

int main(int argc, char** argv) { return baton::cli::Main(argc, argv); }
