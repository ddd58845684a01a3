#include "cli/router_command.h"

#include <malloc.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "cli/admin_port.h"
#include "cli/etcd_flags.h"
#include "cli/http_port.h"
#include "cli/model_loading.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/router_telemetry.h"
#include "cli/security_flags.h"
#include "common/drain.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/random.h"
#include "common/rpc/event_queue.h"
#include "common/rpc/grpc_server.h"
#include "common/status.h"
#include "discovery/announcements.h"
#include "gateway/kserve_service.h"
#include "gateway/vllm_service.h"
#include "router/admin_service.h"
#include "router/api_keys.h"
#include "router/client_work.h"
#include "router/cluster_server.h"
#include "router/generation_service.h"
#include "router/generator.h"
#include "router/journal_store.h"
#include "router/journal_tasks.h"
#include "router/journal_writer.h"
#include "router/router_loop.h"
#include "router/rpc_requests.h"
#include "router/served_model.h"

namespace baton::cli {
namespace {

namespace pb = internal::v1;

// What clients have at least to read why their streams were cut.
constexpr int64_t kReadEndMs = 1'000;
// How long calls that bring requests may stay open without any. When a connection ends, gRPC's client drops the
// messages that came before and that its caller has not taken yet, unless the call has ended in order.
constexpr int64_t kOpenCallsEndMs = 1'000;
constexpr int64_t kServerStopMs = 1'000;
// Allocations from this size on go back to the system when they are freed.
constexpr int kReturnedBytes = 1 << 20;

struct RouterCommandFlags {
  RouterListenFlags listen;
  AdminFlags admin;
  HttpFlags http;
  RouterFlags router;
  EtcdFlags etcd;
  // The host by which workers and clients reach the router, for the etcd; empty: the address that it listens on.
  std::string advertise;
  std::string model;
  std::string served_model_name;
};

// Gives the requests that run `timeout_ms` to end, and their clients the rest of it to read what they have not read
// yet.
void Drain(int64_t timeout_ms, router::RouterLoop& loop, router::RpcRequests& requests, HttpPort& http) {
  const TimeNs begin = MonotonicClock().Now();
  loop.PostWhenRoom([timeout_ms](const router::Dispatcher& dispatcher) {
    spdlog::info("draining: new requests are refused; running: {}, waiting: {}, time to end: {} ms",
                 dispatcher.running_jobs(), dispatcher.queued_jobs(), timeout_ms);
  });
  const std::vector<ChoiceKey> cut = loop.Drain(timeout_ms);
  if (!cut.empty()) spdlog::warn(DescribeCut(cut, timeout_ms));
  const TimeNs end = std::max(After(begin, timeout_ms), After(MonotonicClock().Now(), kReadEndMs));
  const auto left_ms = [end] { return std::max<int64_t>((end - MonotonicClock().Now()) / kNsPerMs, 0); };
  const size_t still_read = requests.AwaitRead(0) + http.AwaitRead(0);
  if (still_read > 0) spdlog::info("every request has ended; {} answers are still being read", still_read);
  const size_t unread = requests.AwaitRead(left_ms()) + http.AwaitRead(left_ms());
  if (unread > 0) spdlog::warn("cut {} ended streams that their clients have not read to the end", unread);
  if (const size_t open = requests.open_calls().AwaitNone(0); open > 0) {
    spdlog::info("{} calls that bring requests are still open", open);
    requests.open_calls().AwaitNone(kOpenCallsEndMs);
  }
  spdlog::info("drained in {:.1f} s", NsToMs(MonotonicClock().Now() - begin) / 1e3);
}

struct ClientAccess {
  rpc::ServerGuard guard;
  // Null: clients need no key. Outlives the servers.
  std::unique_ptr<router::ApiKeys> keys;
};

absl::StatusOr<ClientAccess> MakeClientAccess(const ClientAccessFlags& flags, bool has_tls) {
  const bool requires_certificate = flags.tls_client_auth == "require";
  if (!has_tls && (requires_certificate || !flags.api_keys.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(requires_certificate ? "--tls-client-auth require" : "--api-keys",
                     " needs TLS, without which everybody on the way could read and change what clients send: give "
                     "--tls-cert, --tls-key and --tls-ca as well"));
  }
  ClientAccess access;
  access.guard.rules = {.port = rpc::Port::kClients,
                        .requires_key = !flags.api_keys.empty(),
                        .requires_certificate = requires_certificate};
  if (!access.guard.rules.requires_key) return access;
  BATON_ASSIGN_OR_RETURN(access.keys, router::ApiKeys::Create(flags.api_keys));
  access.guard.knows_key = [keys = access.keys.get()](std::string_view key) { return keys->TenantOf(key).has_value(); };
  return access;
}

// What a former router has left, and what this one leaves. Both are empty without --state-dir.
struct State {
  std::vector<router::JournaledJob> jobs;
  // Ends before the loop does, and writes what waits.
  std::unique_ptr<router::JournalWriter> journal;
};

absl::StatusOr<State> OpenState(const std::string& folder) {
  State state;
  if (folder.empty()) return state;
  BATON_ASSIGN_OR_RETURN(auto store, router::JournalStore::Open({.folder = folder}));
  BATON_ASSIGN_OR_RETURN(state.jobs, router::TakeUpJobs(*store));
  state.journal = std::make_unique<router::JournalWriter>(std::move(store));
  return state;
}

// Tells the workers of the fleet where the router is, and the router which workers there are.
absl::StatusOr<std::unique_ptr<discovery::Directory>> Announce(const RouterCommandFlags& flags,
                                                               const std::string& client_address,
                                                               const std::string& model,
                                                               router::ClusterServer& cluster) {
  pb::RouterAnnouncement own;
  own.set_cluster(rpc::Reachable(cluster.address(), flags.advertise));
  own.set_grpc(rpc::Reachable(client_address, flags.advertise));
  own.set_model(model);
  const std::string key = discovery::RouterKey(flags.etcd.prefix, SystemRandom().NextId());
  return JoinDirectory(flags.etcd, {.key = key, .value = discovery::ToJson(own)},
                       [&cluster](const discovery::Fleet& fleet) {
                         std::vector<pb::Hello> hellos;
                         for (const pb::WorkerAnnouncement& worker : fleet.workers) hellos.push_back(worker.hello());
                         cluster.OnAnnounced(std::move(hellos));
                       });
}

absl::Status CheckAdvertised(const RouterCommandFlags& flags) {
  if (!flags.etcd.is_on() || !rpc::IsWildcard(flags.listen.bind) || !flags.advertise.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("workers cannot reach ", flags.listen.bind,
                                                 ": with --etcd, give --advertise HOST, the name or address "
                                                 "by which they reach this router"));
}

absl::Status Run(const RouterCommandFlags& flags) {
  BATON_RETURN_IF_ERROR(CheckAdvertised(flags));
  BATON_ASSIGN_OR_RETURN(const auto credentials, LoadCredentials(flags.listen.tls, {rpc::Role::kRouter}));
  BATON_ASSIGN_OR_RETURN(const ClientAccess access, MakeClientAccess(flags.router.access, credentials != nullptr));
  AdminPort admin_port(flags.admin, flags.listen.bind, flags.listen.AdminPort(), "router");
  BATON_ASSIGN_OR_RETURN(const router::ServedModel model, LoadServedModel(flags.model, flags.served_model_name));
  admin_port.SetBuildInfo({.model = model.name});
  BATON_ASSIGN_OR_RETURN(const auto telemetry,
                         RouterTelemetry::Create({.metrics = {.model = model.name,
                                                              .ttft_target_ms = flags.router.ttft_target_ms,
                                                              .itl_target_ms = flags.router.itl_target_ms},
                                                  .writes_access_log = flags.router.access_log,
                                                  .traces_content = flags.router.trace_content},
                                                 MonotonicClock(), admin_port));
  BATON_RETURN_IF_ERROR(admin_port.Start());
  router::DispatcherOptions options;
  options.max_queued_jobs = flags.router.max_queued_jobs;
  options.placing.local_prefill_tokens = flags.router.local_prefill_tokens;
  options.placing.ttft_target_ms = flags.router.ttft_target_ms;
  options.worker_silence_ms = flags.router.worker_silence_ms;
  options.canary_interval_ms = flags.router.canary_interval_ms;
  options.tenant_buckets = {.tokens_per_second = flags.router.tenant_tokens_per_second,
                            .burst_tokens = flags.router.tenant_burst_tokens};
  rpc::EventQueue events;
  router::RouterLoop loop(options, MonotonicClock(), SystemRandom(), events);
  telemetry->Observe(loop);
  BATON_ASSIGN_OR_RETURN(State state, OpenState(flags.router.state_dir));
  router::Generator generator(model, MonotonicClock(), SystemRandom(), loop,
                              {.retention_ms = flags.router.state_retention_ms}, state.journal.get());
  generator.Recover(std::move(state.jobs));
  router::ClientWork work(MonotonicClock());
  router::RpcRequests requests({.model = model,
                                .clock = MonotonicClock(),
                                .random = SystemRandom(),
                                .generator = generator,
                                .work = work,
                                .events = events,
                                .observers = telemetry->observers(),
                                .tracer = telemetry->tracer(),
                                .api_keys = access.keys.get()});
  rpc::ServingState serving;
  const auto is_serving = [&serving] { return serving.serving(); };
  router::GenerationService generation(requests);
  gateway::KserveService kserve(requests, is_serving);
  gateway::VllmService vllm(requests, telemetry->views(), MonotonicClock(), is_serving);
  router::AdminService admin({.model = model.name, .admin = admin_port.address()}, MonotonicClock(), loop);
  std::unique_ptr<rpc::CapabilitySigner> capabilities;
  if (credentials != nullptr) {
    BATON_ASSIGN_OR_RETURN(capabilities, rpc::CapabilitySigner::Create(*credentials));
  }
  BATON_ASSIGN_OR_RETURN(const auto http, HttpPort::Open(flags.http,
                                                         {.bind = flags.listen.bind,
                                                          .default_port = flags.listen.HttpPort(),
                                                          .credentials = credentials.get(),
                                                          .guard = access.guard,
                                                          .is_serving = is_serving,
                                                          .metrics = [&admin_port] { return admin_port.Metrics(); }},
                                                         {.model = model,
                                                          .clock = MonotonicClock(),
                                                          .random = SystemRandom(),
                                                          .backend = generator,
                                                          .reader = generator.reader(),
                                                          .work = work,
                                                          .observers = telemetry->observers(),
                                                          .tracer = telemetry->tracer(),
                                                          .api_keys = access.keys.get()}));
  BATON_ASSIGN_OR_RETURN(rpc::GrpcServer server,
                         rpc::StartGrpcServer({.bind = flags.listen.bind,
                                               .port = flags.listen.grpc_port,
                                               .services = {&admin},
                                               .accepting = {&generation, &kserve, &vllm},
                                               .health_names = {"", v1::GenerationService::service_full_name(),
                                                                inference::GRPCInferenceService::service_full_name(),
                                                                gateway::VllmEngineApi::service_full_name()},
                                               .live_names = {v1::AdminService::service_full_name()},
                                               .serving = &serving,
                                               .max_receive_bytes = kMaxMessageBytes,
                                               .clients = rpc::ClientCaps(),
                                               .credentials = credentials.get(),
                                               .guard = access.guard}));
  // The loop runs as long as the cluster server, and clients are served until then. Nothing may fail between the server
  // and `stop_clients`: the services outlive their server only once they are stopped.
  router::ClusterServer cluster({.bind = flags.listen.bind,
                                 .port = flags.listen.ClusterPort(),
                                 .members = {.model = model.name,
                                             .vocab_size = model.config.vocab_size,
                                             .on_serving = [&serving](bool can_serve) { serving.Set(can_serve); },
                                             .capabilities = capabilities.get()},
                                 .credentials = credentials.get()},
                                MonotonicClock(), SystemRandom(), loop, events);
  const absl::Cleanup stop_clients = [&server, &generation, &kserve, &vllm, &http] {
    http->Stop();
    server.gate.reset();
    rpc::StopGrpcServer(*server.server, kServerStopMs);
    generation.Stop();
    kserve.Stop();
    vllm.Stop();
  };
  admin.SetAddress(server.address);
  telemetry->Observe({.requests = requests,
                      .work = work,
                      .kept = generator.kept(),
                      .journal = state.journal.get(),
                      .gate = server.gate.get(),
                      .http = *http});
  BATON_RETURN_IF_ERROR(cluster.Listen());
  BATON_ASSIGN_OR_RETURN(const auto directory, Announce(flags, server.address, model.name, cluster));
  const absl::Cleanup stop_admin = [&admin_port] { admin_port.Stop(); };
  admin_port.AddSources(DirectoryMetrics(directory.get()));
  spdlog::info("waiting for workers of {} at {}; clients call {}", model.name, cluster.address(), server.address);
  PrintReady(
      {.grpc = server.address, .cluster = cluster.address(), .admin = admin_port.address(), .http = http->address()});
  WaitForSignal();
  // Workers that start now look for other routers.
  if (directory != nullptr) directory->Leave();
  serving.Shut();
  http->StopAccepting();
  telemetry->OnDraining();
  Drain(flags.listen.drain_timeout_ms, loop, requests, *http);
  return absl::OkStatus();
}

}  // namespace

void AddRouterCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<RouterCommandFlags>();
  CLI::App* command = app.add_subcommand("router", "the process that clients talk to");
  AddRouterListenFlags(*command, flags->listen);
  AddAdminFlags(*command, flags->admin, std::to_string(kDefaultAdminPort));
  AddHttpFlags(*command, flags->http);
  AddEtcdFlags(*command, flags->etcd);
  command
      ->add_option("--advertise", flags->advertise,
                   "host by which others reach this router, for --etcd; by default that of --bind")
      ->group(kAddressGroup);
  AddRouterFlags(*command, flags->router);
  AddModelFlag(*command, flags->model);
  AddServedModelNameFlag(*command, flags->served_model_name);
  command->callback([flags, &exit_code] {
    HandleSignals();
    InitLogging("router", flags->listen.log_level, ParseLogFormat(flags->listen.log_format));
    // glibc otherwise raises its threshold to the largest message that came, and then keeps the memory of all like it.
    mallopt(M_MMAP_THRESHOLD, kReturnedBytes);
    exit_code = Report(Run(*flags));
  });
}

}  // namespace baton::cli
