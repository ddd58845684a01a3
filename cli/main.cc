// The one binary: every process of a cluster, and its tools.
#include <exception>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "cli/api_key_command.h"
#include "cli/bench_engine_command.h"
#include "cli/bench_router_command.h"
#include "cli/bench_serve_command.h"
#include "cli/chat_command.h"
#include "cli/config_file.h"
#include "cli/drain_command.h"
#include "cli/generate_command.h"
#include "cli/health_command.h"
#include "cli/inspect_command.h"
#include "cli/ledger_command.h"
#include "cli/models_command.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/pull_command.h"
#include "cli/router_command.h"
#include "cli/serve_command.h"
#include "cli/standard_output.h"
#include "cli/status_command.h"
#include "cli/usage_error.h"
#include "cli/worker_command.h"
#include "common/status.h"
#include "common/version.h"
#include "engine/device_plugin.h"
#include "google/protobuf/stubs/logging.h"

namespace baton::cli {
namespace {

int Fail(const absl::Status& status) {
  PrintError(status);
  return kExitUsage;
}

int RunCommand(CLI::App& app, const std::vector<std::string>& args, const int& exit_code) {
  if (const absl::Status environment = CheckEnvironment(app); !environment.ok()) return Fail(environment);
  const absl::StatusOr<std::vector<std::string>> expanded = ExpandConfig(app, args);
  if (!expanded.ok()) return Fail(expanded.status());
  // CLI11 reports by exception, even a request for help, which is no error.
  try {
    app.parse(std::vector<std::string>(expanded->rbegin(), expanded->rend()));
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : Fail(UsageError(app, *expanded, error));
  } catch (const std::exception& error) {
    // Libraries throw where they lack memory, or where a path is too long for the system.
    return Report(absl::InternalError(error.what()));
  }
  return exit_code;
}

// The commands write to std::cout.
int Run(CLI::App& app, const std::vector<std::string>& args, const int& exit_code) {
  const int code = RunCommand(app, args, exit_code);
  const absl::Status written = FlushStandardOutput();
  if (written.ok() || code != kExitDone) return code;
  // A reader that closed the pipe, as `head` does, needs no message about it.
  return absl::IsCancelled(written) ? kExitFailed : Report(written);
}

int Main(int argc, char** argv) {
  WatchStandardOutput();
  QuietGrpc();
  BoundNameLookups();
  BoundHeapArenas();
  google::protobuf::SetLogHandler(nullptr);
  // Debian's abseil looks for cycles of locks at every lock, behind one lock of its own. The tests keep that check.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app{"Baton serves large language models with prefill and decode on separate workers."};
  app.name("baton");
  app.set_version_flag("--version", absl::StrCat("baton ", kVersion, "\n", ToAbsl(engine::CudaStatement())));
  app.require_subcommand(1);
  int exit_code = kExitDone;
  AddServeCommand(app, exit_code);
  AddGenerateCommand(app, exit_code);
  AddChatCommand(app, exit_code);
  AddStatusCommand(app, exit_code);
  AddLedgerCommand(app, exit_code);
  AddDrainCommand(app, exit_code);
  AddHealthCommand(app, exit_code);
  AddApiKeyCommand(app, exit_code);
  AddTokenizeCommands(app, exit_code);
  AddInspectCommand(app, exit_code);
  AddModelsCommand(app, exit_code);
  AddPullCommands(app, exit_code);
  CLI::App* bench = app.add_subcommand("bench", "measures the engine, or a server under load")->require_subcommand(1);
  AddBenchEngineCommand(*bench, exit_code);
  AddBenchServeCommand(*bench, exit_code);
  AddBenchRouterCommand(*bench, exit_code);
  AddRouterCommand(app, exit_code);
  AddWorkerCommands(app, exit_code);
  AddVersionCommand(app, exit_code);
  FinishOptions(app);
  return Run(app, std::vector<std::string>(argv + 1, argv + argc), exit_code);
}

}  // namespace
}  // namespace baton::cli

int main(int argc, char** argv) { return baton::cli::Main(argc, argv); }
