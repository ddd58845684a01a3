#include "cli/worker_command.h"

#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "cli/admin_port.h"
#include "cli/etcd_flags.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/security_flags.h"
#include "cli/start_worker.h"
#include "common/log.h"
#include "common/own_fault.h"
#include "common/rpc/wire.h"
#include "common/status.h"
#include "discovery/announcements.h"

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

rpc::Role CertificateRole(pb::WorkerRole role) {
  return role == pb::WORKER_ROLE_PREFILL  ? rpc::Role::kPrefillWorker
         : role == pb::WORKER_ROLE_DECODE ? rpc::Role::kDecodeWorker
                                          : rpc::Role::kMixedWorker;
}

// Asks the routers of the fleet to join: those that the flags name, or those of the etcd that serve the worker's model.
absl::StatusOr<std::unique_ptr<discovery::Directory>> FollowRouters(const WorkerFlags& flags,
                                                                    worker::WorkerProcess& worker) {
  if (!flags.etcd.is_on()) {
    worker.FollowRouters(ParseRouters(flags.router));
    return std::unique_ptr<discovery::Directory>();
  }
  pb::WorkerAnnouncement own;
  *own.mutable_hello() = worker.Hello();
  worker::StateProtocol(*own.mutable_hello());
  BATON_ASSIGN_OR_RETURN(const Incarnation incarnation, rpc::FromBytes(own.hello().incarnation()));
  return JoinDirectory(flags.etcd,
                       {.key = discovery::WorkerKey(flags.etcd.prefix, incarnation), .value = discovery::ToJson(own)},
                       [&worker, model = own.hello().model()](const discovery::Fleet& fleet) {
                         worker.FollowRouters(discovery::ClusterTargets(fleet, model));
                       });
}

absl::Status Run(pb::WorkerRole role, const std::string& role_name, const WorkerFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto credentials, LoadCredentials(flags.listen.tls, {CertificateRole(role)}));
  AdminPort admin(flags.admin, flags.listen.bind, 0, role_name);
  BATON_RETURN_IF_ERROR(admin.Start());
  BATON_ASSIGN_OR_RETURN(const auto worker, StartWorker(role, flags, admin, credentials.get()));
  BATON_ASSIGN_OR_RETURN(const auto directory, FollowRouters(flags, *worker));
  // Its probes and sources are the worker's.
  const absl::Cleanup stop_admin = [&admin] { admin.Stop(); };
  admin.AddSources(worker->metrics());
  admin.AddSources(DirectoryMetrics(directory.get()));
  admin.SetProbes([&worker] { return worker->Healthy(); }, [&worker] { return worker->Ready(); });
  if (AwaitMembership(*worker)) PrintReady({.grpc = worker->address(), .admin = admin.address()});
  WaitForSignal();
  // Nobody waits for a worker that leaves.
  if (directory != nullptr) directory->Leave();
  worker->Drain(flags.listen.drain_timeout_ms);
  return absl::OkStatus();
}

struct Role {
  pb::WorkerRole role;
  const char* command;
  // In metrics.
  const char* name;
  const char* description;
};

void AddWorkerCommand(CLI::App& app, const Role& role, int& exit_code) {
  auto flags = std::make_shared<WorkerFlags>();
  flags->router = "127.0.0.1:" + std::to_string(kDefaultClusterPort);
  CLI::App* command = app.add_subcommand(role.command, role.description);
  CLI::Option* const router =
      command
          ->add_option("--router", flags->router, "HOST:PORT of the cluster port of each router, separated by commas")
          ->group(kAddressGroup)
          ->check(RouterList())
          ->capture_default_str();
  AddEtcdFlags(*command, flags->etcd)->excludes(router);
  AddModelFlag(*command, flags->engine.model);
  AddServedModelNameFlag(*command, flags->served_model_name);
  AddEngineFlags(*command, flags->engine);
  AddListenFlags(*command, flags->listen, 0);
  AddAdminFlags(*command, flags->admin, "0");
  command
      ->add_option("--advertise", flags->advertise,
                   "host by which router and workers reach this worker; by default that of --bind")
      ->group(kAddressGroup);
  command
      ->add_option("--transfer-ports", flags->transfer_ports,
                   "FIRST-LAST: the TCP ports at which KV is read; each worker of this host takes two")
      ->check(PortRange());
  // `baton serve` shows its own progress, and its workers none.
  command->add_flag("--supervised", flags->supervised)->group(kInternalGroup);
  // The descriptor by which a supervisor shares the cores.
  command->add_option("--core-arbiter-fd", flags->core_arbiter_fd)->group(kInternalGroup);
  // How many of a supervisor's workers divide this worker's device.
  command->add_option("--device-workers", flags->device_workers)->check(CLI::PositiveNumber)->group(kInternalGroup);
  command->callback([flags, role, &exit_code] {
    HandleSignals();
    WatchForFaults();
    InitLogging(role.command, flags->listen.log_level, ParseLogFormat(flags->listen.log_format));
    exit_code = Report(Run(role.role, role.name, *flags));
  });
}

}  // namespace

void AddWorkerCommands(CLI::App& app, int& exit_code) {
  AddWorkerCommand(app,
                   {pb::WORKER_ROLE_PREFILL, "prefill-worker", "prefill", "computes prompts and hands their KV over"},
                   exit_code);
  AddWorkerCommand(app, {pb::WORKER_ROLE_DECODE, "decode-worker", "decode", "pulls KV and generates"}, exit_code);
  AddWorkerCommand(app, {pb::WORKER_ROLE_MIXED, "mixed-worker", "mixed", "does both, on one pool"}, exit_code);
}

}  // namespace baton::cli
