#include "worker/worker_process.h"

#include <unistd.h>

#include <utility>

#include "common/clock.h"
#include "common/random.h"
#include "common/rpc/wire.h"
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
      access_(*parts_.transport),
      fetcher_(*parts_.transport,
               {.max_blocks_per_read = kTokenBlocksPerRead * parts_.runner->kv_layout().groups().count(),
                .reader = kvtransfer::ThisProcess()},
               MonotonicClock(), pool_),
      core_({.incarnation = SystemRandom().NextId(), .engine = options.engine, .transport_address = transport_address},
            {.clock = MonotonicClock(),
             .random = SystemRandom(),
             .runner = *parts_.runner,
             .pool = pool_,
             .replies = fetch_endpoint_.replies(),
             .access = access_,
             .fetcher = fetcher_}),
      phases_(std::move(phases)),
      calls_(MonotonicClock()) {
  for (const auto& phase : phases_) phase->AddTo(core_, calls_.Add(*phase));
  core_.MakeLoop([this] { Report(); }, parts_.gate.get());
  fetch_endpoint_.Attach(core_);
}

absl::Status WorkerProcess::Serve() {
  fetcher_.Launch(core_);
  loop_thread_ = std::thread([this] { core_.loop().Run(); });
  rpc::GrpcServerOptions server{
      .bind = options_.bind, .port = options_.port, .health_names = {""}, .serving = &serving_};
  if (core_.kv_server().has_owner()) {
    server.services.push_back(&fetch_endpoint_.service());
    server.health_names.push_back(pb::KvService::service_full_name());
  }
  BATON_ASSIGN_OR_RETURN(server_, rpc::StartGrpcServer(server));
  link_ = std::make_unique<RouterLink>(
      RouterLink::Options{.router_target = options_.router,
                          .hello = Hello(),
                          .load = [this] { return Load(); },
                          .post = [this](std::function<void()> task) { core_.loop().PostWhenRoom(std::move(task)); },
                          .on_serving = [this](bool serving) { serving_.Set(serving); }},
      calls_);
  link_->Start();
  return absl::OkStatus();
}

pb::Hello WorkerProcess::Hello() const {
  pb::Hello hello;
  hello.set_incarnation(rpc::ToBytes(core_.options().incarnation));
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
  hello.set_headroom_blocks(core_.headroom_blocks());
  return hello;
}

void WorkerProcess::Report() {
  calls_.Flush();
  const WorkerLoad load = core_.Load();
  populator_.SetUsed(static_cast<size_t>(load.touched_end) * pool_.block_bytes());
  absl::MutexLock lock(&load_mutex_);
  load_.set_free_blocks(load.free_blocks);
  load_.set_used_blocks(load.used_blocks);
  load_.set_cached_blocks(load.cached_blocks);
  load_.set_running(load.running + load.preempted);
  load_.set_pending_prompt_tokens(load.pending_prompt_tokens);
  // Blocks are referred to until the last reader has them.
  idle_ = load.used_blocks == 0 && calls_.open_calls() == 0;
  drain_accepted_ = calls_.drain_accepted();
}

pb::Load WorkerProcess::Load() {
  const engine::LoopProgress progress = core_.loop().Progress();
  absl::MutexLock lock(&load_mutex_);
  load_.set_steps(progress.steps);
  const int64_t age_ns = progress.step_began.has_value() ? MonotonicClock().Now() - *progress.step_began : 0;
  load_.set_step_age_ms(age_ns / kNsPerMs);
  return load_;
}

bool WorkerProcess::MayEnd() {
  const bool is_member = link_->is_member();
  absl::MutexLock lock(&load_mutex_);
  return idle_ && (drain_accepted_ || !is_member);
}

void WorkerProcess::Drain(int64_t timeout_ms) {
  link_->Drain();
  const TimeNs deadline = After(MonotonicClock().Now(), timeout_ms);
  while (!MayEnd() && MonotonicClock().Now() < deadline) absl::SleepFor(absl::Milliseconds(kDrainPollMs));
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
