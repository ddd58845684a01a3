#include "cli/serve_command.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/admin_port.h"
#include "cli/forwarded_options.h"
#include "cli/http_port.h"
#include "cli/model_device.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/security_flags.h"
#include "cli/supervisor.h"
#include "common/log.h"
#include "common/status.h"
#include "engine/core_arbiter.h"
#include "engine/cpu_model.h"

namespace baton::cli {
namespace {

constexpr int kMaxLocalWorkers = 64;

struct ServeFlags {
  RouterListenFlags listen;
  AdminFlags admin;
  HttpFlags http;
  EngineFlags engine;
  RouterFlags router;
  std::string served_model_name;
  int prefill = 1;
  int decode = 1;
  int mixed = 0;
  std::string core_sharing = "auto";
};

// Whether there are more kernel threads in all workers than cores.
bool SharesCores(const ServeFlags& flags) {
  if (flags.core_sharing != "auto") return flags.core_sharing == "on";
  const int workers = flags.prefill + flags.decode + flags.mixed;
  return workers > 1 && workers * engine::KernelThreads(flags.engine.threads) > engine::KernelThreads(0);
}

// The driver's device that a worker with these arguments would compute on; none: it computes on the CPU.
std::optional<int> OrdinalOf(const std::vector<std::string>& args) {
  engine::DeviceChoice choice;
  for (const std::string& arg : args) {
    absl::string_view value = arg;
    if (absl::ConsumePrefix(&value, "--device=")) choice = engine::ParseDevice(ToStd(value)).value_or(choice);
  }
  if (choice.kind == engine::DeviceKind::kCpu) return std::nullopt;
  return choice.ordinal;
}

// Tells workers on one device how many they are, because each sizes its KV pool by what the device has.
void DivideDevices(std::vector<WorkerCommand>& workers) {
  std::map<int, int> workers_on;
  for (const WorkerCommand& worker : workers) {
    if (const std::optional<int> ordinal = OrdinalOf(worker.args); ordinal.has_value()) ++workers_on[*ordinal];
  }
  for (WorkerCommand& worker : workers) {
    const std::optional<int> ordinal = OrdinalOf(worker.args);
    const int sharing = ordinal.has_value() ? workers_on[*ordinal] : 1;
    if (sharing > 1) worker.args.push_back(absl::StrCat("--device-workers=", sharing));
  }
}

// `serve` is the parsed command.
absl::StatusOr<SupervisorOptions> MakeOptions(const CLI::App& serve, const ServeFlags& flags) {
  const CLI::App& all = *serve.get_parent();
  SupervisorOptions options;
  options.bind = flags.listen.bind;
  options.grpc_port = flags.listen.grpc_port;
  options.cluster_port = flags.listen.ClusterPort();
  options.admin_port = flags.admin.port.empty() ? std::to_string(flags.listen.AdminPort()) : flags.admin.port;
  options.admin_bind = flags.admin.bind;
  options.http_port = flags.http.port;
  options.drain_timeout_ms = flags.listen.drain_timeout_ms;
  options.router_args = ForwardedArgs(serve, *all.get_subcommand("router"));
  std::vector<std::string> shared;
  if (SharesCores(flags)) {
    // Stays open as long as this process, because restarted children inherit it too.
    BATON_ASSIGN_OR_RETURN(const int arbiter_fd, engine::CreateCoreArbiter());
    shared = {"--core-arbiter-fd", std::to_string(arbiter_fd)};
  }
  const auto add_workers = [&](const char* role, int count) {
    std::vector<std::string> args = ForwardedArgs(serve, *all.get_subcommand(role));
    args.insert(args.end(), shared.begin(), shared.end());
    options.workers.insert(options.workers.end(), static_cast<size_t>(count), {role, args});
  };
  add_workers("prefill-worker", flags.prefill);
  add_workers("decode-worker", flags.decode);
  add_workers("mixed-worker", flags.mixed);
  DivideDevices(options.workers);
  return options;
}

// `credentials` outlives the supervisor.
absl::StatusOr<SupervisorOptions> Prepare(const CLI::App& serve, const ServeFlags& flags, ModelDevice& device,
                                          std::unique_ptr<rpc::Credentials>& credentials) {
  BATON_ASSIGN_OR_RETURN(device, ChooseWorkerDevice(flags.engine));
  // Its children check that the certificate carries their roles.
  BATON_ASSIGN_OR_RETURN(credentials, LoadCredentials(flags.listen.tls, {rpc::Role::kRouter}));
  BATON_ASSIGN_OR_RETURN(SupervisorOptions options, MakeOptions(serve, flags));
  options.credentials = credentials.get();
  return options;
}

int Serve(const CLI::App& command, const ServeFlags& flags) {
  if (flags.mixed == 0 && (flags.prefill == 0 || flags.decode == 0)) {
    PrintError(absl::InvalidArgumentError("serve needs --prefill and --decode workers, or --mixed ones"));
    return kExitUsage;
  }
  ModelDevice device;
  std::unique_ptr<rpc::Credentials> credentials;
  absl::StatusOr<SupervisorOptions> options = Prepare(command, flags, device, credentials);
  if (!options.ok()) {
    PrintError(options.status());
    return kExitFailed;
  }
  Supervisor supervisor(*std::move(options));
  const absl::Status started = supervisor.Start();
  if (!started.ok()) {
    if (!absl::IsAborted(started)) PrintError(started);
    const bool in_order = supervisor.Stop();
    return absl::IsCancelled(started) && in_order ? kExitDone : kExitFailed;
  }
  if (!device.why_cpu.empty()) spdlog::info(device.why_cpu);
  PrintReady({.grpc = supervisor.router().grpc, .admin = supervisor.router().admin, .http = supervisor.router().http});
  supervisor.Watch();
  return supervisor.Stop() ? kExitDone : kExitFailed;
}

}  // namespace

void AddServeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "a local cluster: a router and its workers under one supervisor");
  AddModelPosition(*command, flags->engine.model);
  const CLI::Range count(0, kMaxLocalWorkers);
  command->add_option("--prefill", flags->prefill, "prefill workers")->check(count)->capture_default_str();
  command->add_option("--decode", flags->decode, "decode workers")->check(count)->capture_default_str();
  command->add_option("--mixed", flags->mixed, "workers that do both")->check(count)->capture_default_str();
  command
      ->add_option("--core-sharing", flags->core_sharing,
                   "workers take turns on the cores; auto: when they have more threads than there are cores")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  AddRouterListenFlags(*command, flags->listen);
  AddAdminFlags(*command, flags->admin, std::to_string(kDefaultAdminPort));
  AddHttpFlags(*command, flags->http);
  AddEngineFlags(*command, flags->engine);
  AddServedModelNameFlag(*command, flags->served_model_name);
  AddRouterFlags(*command, flags->router);
  AddRoleFlagOption(*command);
  command->callback([command, flags, &exit_code] {
    HandleSignals();
    InitLogging("supervisor", flags->listen.log_level, ParseLogFormat(flags->listen.log_format));
    exit_code = Serve(*command, *flags);
  });
}

}  // namespace baton::cli
