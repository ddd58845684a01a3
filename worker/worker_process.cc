#include "worker/worker_process.h"

#include <unistd.h>

#include <utility>

#include "common/clock.h"
#include "common/random.h"
#include "common/status.h"

namespace baton::worker {
namespace pb = internal::v1;
namespace {

constexpr int64_t kDrainPollMs = 20;
// Blocks of each group of layers in one read of a hand-off.
constexpr int32_t kTokenBlocksPerRead = 8;
constexpr int64_t kServerStopMs = 1'000;
// The KV of ten prompts of 512 tokens of SmolLM2.
constexpr size_t kPopulateAheadBytes = size_t{128} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const WorkerProcessOptions& options,
                                                                    WorkerParts parts,
                                                                    std::vector<std::unique_ptr<Phase>> phases) {
  BATON_ASSIGN_OR_RETURN(const std::string transport_address, parts.transport->Address());
  std::unique_ptr<WorkerProcess> worker(
      new WorkerProcess(options, std::move(parts), transport_address, std::move(phases)));
  BATON_RETURN_IF_ERROR(worker->Serve());
  return worker;
}

WorkerProcess::WorkerProcess(const WorkerProcessOptions& options, WorkerParts parts,
                             const std::string& transport_address, std::vector<std::unique_ptr<Phase>> phases)
    : options_(options),
      parts_(std::move(parts)),
      pool_(parts_.kv_memory, parts_.runner->kv_layout().block_bytes()),
      populator_(parts_.kv_memory, kPopulateAheadBytes),
      fetcher_(*parts_.transport,
               {.max_blocks_per_read = kTokenBlocksPerRead * parts_.runner->kv_layout().groups().count()},
               MonotonicClock(), pool_),
      core_({.incarnation = SystemRandom().NextId(), .engine = options.engine, .transport_address = transport_address},
            {.clock = MonotonicClock(),
             .runner = *parts_.runner,
             .pool = pool_,
             .replies = fetch_endpoint_.replies(),
             .fetcher = fetcher_}),
      phases_(std::move(phases)) {
  for (const auto& phase : phases_) phase->AddTo(core_);
  core_.MakeLoop([this] { PublishLoad(); }, parts_.gate.get());
  fetch_endpoint_.Attach(core_);
}

absl::Status WorkerProcess::Serve() {
  fetcher_.Launch(core_);
  loop_thread_ = std::thread([this] { core_.loop().Run(); });
  rpc::GrpcServerOptions server{.bind = options_.bind, .port = options_.port};
  for (const auto& phase : phases_) {
    server.services.push_back(&phase->service());
    server.health_names.push_back(phase->service_name());
  }
  if (core_.kv_server().has_owner()) server.services.push_back(&fetch_endpoint_.service());
  BATON_ASSIGN_OR_RETURN(server_, rpc::StartGrpcServer(server));
  link_ = std::make_unique<RouterLink>(
      RouterLink::Options{.router_target = options_.router, .hello = Hello(), .load = [this] { return Load(); }});
  link_->Start();
  return absl::OkStatus();
}

pb::WorkerHello WorkerProcess::Hello() const {
  pb::WorkerHello hello;
  hello.set_incarnation(core_.options().incarnation.ToHex());
  hello.set_role(options_.role);
  hello.set_target(server_.address);
  hello.set_model(options_.model);
  hello.set_fingerprint(parts_.runner->fingerprint());
  hello.set_total_blocks(pool_.block_count());
  hello.set_max_sequences(options_.engine.max_sequences);
  hello.set_chunk_tokens(options_.engine.chunk_tokens);
  hello.set_context_length(parts_.runner->context_length());
  hello.set_pid(getpid());
  const KvGroups groups = parts_.runner->kv_layout().groups();
  hello.set_full_groups(groups.full);
  hello.set_sliding_groups(groups.sliding);
  hello.set_window(groups.window);
  return hello;
}

void WorkerProcess::PublishLoad() {
  const WorkerLoad load = core_.Load();
  populator_.SetUsed(static_cast<size_t>(load.touched_end) * pool_.block_bytes());
  absl::MutexLock lock(&load_mutex_);
  load_.set_free_blocks(load.free_blocks);
  load_.set_used_blocks(load.used_blocks);
  load_.set_cached_blocks(load.cached_blocks);
  load_.set_running(load.running + load.preempted);
  load_.set_pending_prompt_tokens(load.pending_prompt_tokens);
}

pb::WorkerHeartbeat WorkerProcess::Load() {
  absl::MutexLock lock(&load_mutex_);
  return load_;
}

void WorkerProcess::Drain(int64_t timeout_ms) {
  link_->Drain();
  const TimeNs deadline = After(MonotonicClock().Now(), timeout_ms);
  // Blocks are referred to until the last reader has them.
  while (Load().used_blocks() > 0 && MonotonicClock().Now() < deadline)
    absl::SleepFor(absl::Milliseconds(kDrainPollMs));
}

// The process ends from the outside in: first nobody calls, then nobody computes, then nobody copies.
WorkerProcess::~WorkerProcess() {
  if (link_ != nullptr) link_->Stop();
  if (server_.server != nullptr) rpc::StopGrpcServer(*server_.server, kServerStopMs);
  core_.loop().Stop();
  if (loop_thread_.joinable()) loop_thread_.join();
  fetcher_.Stop();
}

}  // namespace baton::worker
