#include "cli/worker_command.h"

#include <memory>
#include <string>

#include "cli/options.h"
#include "cli/process.h"
#include "cli/start_worker.h"
#include "common/log.h"

namespace baton::cli {
namespace {

namespace pb = internal::v1;

constexpr int64_t kJoinPollMs = 10;

// False when a signal to end came first.
bool AwaitMembership(const worker::WorkerProcess& worker) {
  while (!worker.is_member()) {
    if (SignalCame(kJoinPollMs)) return false;
  }
  return true;
}

int Run(pb::WorkerRole role, const WorkerFlags& flags) {
  auto worker = StartWorker(role, flags);
  if (!worker.ok()) {
    PrintError(worker.status());
    return kExitFailed;
  }
  if (AwaitMembership(**worker)) PrintReady({.grpc = (*worker)->address()});
  WaitForSignal();
  (*worker)->Drain(flags.listen.drain_timeout_ms);
  return kExitDone;
}

struct Role {
  pb::WorkerRole role;
  const char* command;
  const char* description;
};

void AddWorkerCommand(CLI::App& app, const Role& role, int& exit_code) {
  auto flags = std::make_shared<WorkerFlags>();
  flags->router = "127.0.0.1:" + std::to_string(kDefaultClusterPort);
  CLI::App* command = app.add_subcommand(role.command, role.description);
  command->add_option("--router", flags->router, "HOST:PORT of the router's cluster port")
      ->group(kAddressGroup)
      ->capture_default_str();
  AddModelFlag(*command, flags->engine.model);
  AddServedModelNameFlag(*command, flags->served_model_name);
  AddEngineFlags(*command, flags->engine);
  AddListenFlags(*command, flags->listen, 0);
  // `baton serve` shows its own progress, and its workers none.
  command->add_flag("--supervised", flags->supervised)->group(kInternalGroup);
  // The descriptor by which a supervisor shares the cores.
  command->add_option("--core-arbiter-fd", flags->core_arbiter_fd)->group(kInternalGroup);
  command->callback([flags, role, &exit_code] {
    HandleSignals();
    InitLogging(role.command, flags->listen.log_level, ParseLogFormat(flags->listen.log_format));
    exit_code = Run(role.role, *flags);
  });
}

}  // namespace

void AddWorkerCommands(CLI::App& app, int& exit_code) {
  AddWorkerCommand(app, {pb::WORKER_ROLE_PREFILL, "prefill-worker", "computes prompts and hands their KV over"},
                   exit_code);
  AddWorkerCommand(app, {pb::WORKER_ROLE_DECODE, "decode-worker", "pulls KV and generates"}, exit_code);
  AddWorkerCommand(app, {pb::WORKER_ROLE_MIXED, "mixed-worker", "does both, on one pool"}, exit_code);
}

}  // namespace baton::cli
