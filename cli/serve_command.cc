#include "cli/serve_command.h"

#include <memory>
#include <string>
#include <utility>

#include "cli/options.h"
#include "cli/process.h"
#include "cli/supervisor.h"
#include "common/log.h"
#include "common/status.h"
#include "engine/core_arbiter.h"
#include "engine/cpu_model.h"
#include "modelfile/model_file.h"

namespace baton::cli {
namespace {

constexpr int kMaxLocalWorkers = 64;

struct Flags {
  ListenFlags listen;
  EngineFlags engine;
  RouterFlags router;
  int prefill = 1;
  int decode = 1;
  int mixed = 0;
  std::string core_sharing = "auto";
};

std::vector<std::string> EngineArgs(const Flags& flags) {
  const EngineFlags& engine = flags.engine;
  const std::pair<const char*, std::string> values[] = {
      {"--model", engine.model},
      {"--threads", std::to_string(engine.threads)},
      {"--numerics", engine.numerics},
      {"--kv-dtype", engine.kv_dtype},
      {"--isa", engine.isa},
      {"--weights", engine.weights},
      {"--kv-memory", engine.kv_memory},
      {"--max-seqs", std::to_string(engine.max_seqs)},
      {"--chunk-tokens", std::to_string(engine.chunk_tokens)},
      {"--transport", engine.transport},
      {"--decode-period-ms", std::to_string(engine.decode_period_ms)},
      {"--log-level", flags.listen.log_level},
  };
  std::vector<std::string> args;
  for (const auto& [flag, value] : values) args.insert(args.end(), {flag, value});
  if (engine.no_prefix_cache) args.push_back("--no-prefix-cache");
  return args;
}

// Whether the workers' kernel threads are more than the cores.
bool SharesCores(const Flags& flags) {
  if (flags.core_sharing != "auto") return flags.core_sharing == "on";
  const int workers = flags.prefill + flags.decode + flags.mixed;
  return workers > 1 && workers * engine::KernelThreads(flags.engine.threads) > engine::KernelThreads(0);
}

absl::StatusOr<SupervisorOptions> MakeOptions(const Flags& flags) {
  SupervisorOptions options;
  options.bind = flags.listen.bind;
  options.grpc_port = flags.listen.grpc_port;
  options.router_args = {"--model",
                         flags.engine.model,
                         "--max-queued-jobs",
                         std::to_string(flags.router.max_queued_jobs),
                         "--local-prefill-tokens",
                         std::to_string(flags.router.local_prefill_tokens),
                         "--ttft-target-ms",
                         std::to_string(flags.router.ttft_target_ms),
                         "--log-level",
                         flags.listen.log_level};
  std::vector<std::string> args = EngineArgs(flags);
  if (SharesCores(flags)) {
    // Open as long as this process: every child, restarted ones too, inherits it.
    BATON_ASSIGN_OR_RETURN(const int arbiter_fd, engine::CreateCoreArbiter());
    args.insert(args.end(), {"--core-arbiter-fd", std::to_string(arbiter_fd)});
  }
  for (int i = 0; i < flags.prefill; ++i) options.workers.push_back({"prefill-worker", args});
  for (int i = 0; i < flags.decode; ++i) options.workers.push_back({"decode-worker", args});
  for (int i = 0; i < flags.mixed; ++i) options.workers.push_back({"mixed-worker", args});
  return options;
}

int Serve(const Flags& flags) {
  if (flags.mixed == 0 && (flags.prefill == 0 || flags.decode == 0)) {
    PrintError(absl::InvalidArgumentError("serve needs --prefill and --decode workers, or --mixed ones"));
    return kExitUsage;
  }
  absl::StatusOr<SupervisorOptions> options = MakeOptions(flags);
  if (!options.ok()) {
    PrintError(options.status());
    return kExitFailed;
  }
  Supervisor supervisor(*std::move(options));
  const absl::Status started = supervisor.Start();
  if (!started.ok()) {
    if (!absl::IsAborted(started)) PrintError(started);
    supervisor.Stop();
    return kExitFailed;
  }
  PrintReady(supervisor.address());
  supervisor.Watch();
  supervisor.Stop();
  return kExitDone;
}

}  // namespace

void AddServeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  flags->engine.model = modelfile::kDefaultModel;
  CLI::App* command = app.add_subcommand("serve", "a local cluster: a router and its workers under one supervisor");
  command->add_option("MODEL", flags->engine.model, kModelHelp)->capture_default_str();
  const CLI::Range count(0, kMaxLocalWorkers);
  command->add_option("--prefill", flags->prefill, "prefill workers")->check(count)->capture_default_str();
  command->add_option("--decode", flags->decode, "decode workers")->check(count)->capture_default_str();
  command->add_option("--mixed", flags->mixed, "workers that do both")->check(count)->capture_default_str();
  command
      ->add_option("--core-sharing", flags->core_sharing,
                   "workers take turns on the cores; auto: when they have more threads than there are cores")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  AddListenFlags(*command, flags->listen, kDefaultGrpcPort);
  AddEngineFlags(*command, flags->engine);
  AddRouterFlags(*command, flags->router);
  command->callback([flags, &exit_code] {
    BlockSignals();
    InitLogging("supervisor", flags->listen.log_level);
    exit_code = Serve(*flags);
  });
}

}  // namespace baton::cli
