#include "worker/worker_process.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/drain.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/own_fault.h"
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
// How long the loop has to cut what runs: more than a step takes.
constexpr int64_t kCutMs = 2'000;
// The KV of ten prompts of 512 tokens of SmolLM2.
constexpr size_t kPopulateAheadBytes = size_t{128} << 20;

const char* RoleLabel(pb::WorkerRole role) {
  switch (role) {
    case pb::WORKER_ROLE_PREFILL:
      return "prefill";
    case pb::WORKER_ROLE_DECODE:
      return "decode";
    default:
      return "mixed";
  }
}

// What there is to populate: a device has no pages.
absl::Span<uint8_t> HostMemoryOf(const KvPool& pool) {
  return pool.memory().kind == MemoryKind::kHost ? pool.memory().host() : absl::Span<uint8_t>();
}

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
      compiles_([this](SideWork::Task task) { core_.loop().PostWhenRoom(std::move(task)); }),
      masks_([this](SideWork::Task task) { core_.loop().PostWhenRoom(std::move(task)); }),
      populator_(HostMemoryOf(*parts_.pool), kPopulateAheadBytes),
      metrics_({.role = RoleLabel(options.role),
                .pulls = options.role != pb::WORKER_ROLE_PREFILL,
                .block_bytes = static_cast<int64_t>(parts_.pool->block_bytes())},
               MonotonicClock()),
      access_(*parts_.transport),
      fetcher_(*parts_.transport,
               {.max_blocks_per_read = kTokenBlocksPerRead * parts_.runner->kv_layout().groups().count(),
                .reader = kvtransfer::ThisProcess()},
               MonotonicClock(), *parts_.pool,
               {.committed = [this](const kvtransfer::Committed& done) { metrics_.OnCommitted(done); },
                .failed = [this](const kvtransfer::FetchFailed& failed) { metrics_.OnFetchFailed(failed); }}),
      core_({.incarnation = SystemRandom().NextId(), .engine = options.engine, .transport_address = transport_address},
            {.clock = MonotonicClock(),
             .random = SystemRandom(),
             .runner = *parts_.runner,
             .pool = *parts_.pool,
             .replies = fetch_endpoint_.replies(),
             .access = access_,
             .fetcher = fetcher_}),
      phases_(std::move(phases)),
      calls_(options.max_routers, MonotonicClock(), core_.work()),
      drain_accepted_(options.max_routers) {
  if (parts_.constraints != nullptr) parts_.constraints->PrepareBeside(compiles_, masks_);
  for (const auto& phase : phases_) phase->AddTo(core_, calls_.Add(*phase));
  core_.MakeLoop([this] { Report(); }, parts_.gate.get());
  fetch_endpoint_.Attach(core_, options_.credentials);
}

absl::Status WorkerProcess::Serve() {
  fetcher_.Launch(core_, options_.credentials);
  loop_thread_ = std::thread([this] { core_.loop().Run(); });
  rpc::GrpcServerOptions server{.bind = options_.bind,
                                .port = options_.port,
                                .health_names = {""},
                                .serving = &serving_,
                                .what = "this is a worker of Baton, and clients call its router",
                                .credentials = options_.credentials,
                                .guard = {.rules = {.port = rpc::Port::kWorker}}};
  if (core_.kv_server().has_owner()) {
    server.services.push_back(&fetch_endpoint_.service());
    server.health_names.push_back(pb::KvService::service_full_name());
  }
  BATON_ASSIGN_OR_RETURN(server_, rpc::StartGrpcServer(server));
  links_ = std::make_unique<RouterLinks>(
      RouterLink::Options{.credentials = options_.credentials,
                          .hello = Hello(),
                          .load = [this] { return Load(); },
                          .fault = [this] { return Fault(); },
                          .on_fault_told = &AllowDeath,
                          .on_drain_ordered = [this] { OnDrainOrdered(); },
                          .post = [this](std::function<void()> task) { core_.loop().PostWhenRoom(std::move(task)); },
                          .on_serving =
                              [this](bool serving) {
                                can_serve_ = serving;
                                serving_.Set(serving);
                              }},
      calls_);
  AddLinkMetrics();
  return absl::OkStatus();
}

pb::Hello WorkerProcess::Hello() const {
  pb::Hello hello;
  hello.set_incarnation(rpc::ToBytes(core_.options().incarnation));
  hello.set_role(options_.role);
  hello.set_target(rpc::Reachable(server_.address, options_.advertise));
  hello.set_model(options_.model);
  hello.set_fingerprint(parts_.runner->fingerprint());
  hello.set_total_blocks(parts_.pool->block_count());
  hello.set_max_sequences(options_.engine.max_sequences);
  hello.set_chunk_tokens(options_.engine.chunk_tokens);
  hello.set_context_length(parts_.runner->context_length());
  hello.set_pid(getpid());
  const KvGroups groups = parts_.runner->kv_layout().groups();
  hello.set_full_groups(groups.full);
  hello.set_sliding_groups(groups.sliding);
  hello.set_window(groups.window);
  hello.set_headroom_blocks(core_.headroom_blocks());
  hello.set_vocab_size(parts_.runner->vocab_size());
  hello.set_admin(rpc::Reachable(options_.admin, options_.advertise));
  hello.set_drain_timeout_ms(static_cast<int32_t>(options_.drain_timeout_ms));
  return hello;
}

void WorkerProcess::OnDrainOrdered() const {
  spdlog::info("an operator has ordered this worker to drain");
  options_.on_drain_ordered();
}

std::optional<pb::Fault> WorkerProcess::Fault() const {
  const std::optional<OwnFault> own = CurrentFault();
  if (!own.has_value()) return std::nullopt;
  pb::Fault fault;
  fault.set_signal(own->signal);
  if (!own->computing) return fault;
  for (const JobKey& key : core_.work().Read()) rpc::ToProto(key, fault.add_at_work());
  return fault;
}

void WorkerProcess::Report() {
  const WorkerLoad load = core_.Load();
  calls_.Flush(load.holds_nothing(), [this] { return core_.Blocks(); });
  metrics_.OnRound(core_, load, parts_.gate.get());
  populator_.SetUsed(static_cast<size_t>(load.touched_end) * parts_.pool->block_bytes());
  absl::MutexLock lock(&load_mutex_);
  load_.set_free_blocks(load.free_blocks);
  load_.set_used_blocks(load.used_blocks);
  load_.set_cached_blocks(load.cached_blocks);
  load_.set_running(load.running + load.preempted);
  load_.set_pending_prompt_tokens(load.pending_prompt_tokens);
  open_calls_ = calls_.open_calls();
  frozen_calls_ = calls_.frozen_calls();
  for (size_t i = 0; i < calls_.routers(); ++i) drain_accepted_[i] = calls_.Of(i).drain_accepted();
}

pb::Load WorkerProcess::Load() {
  absl::MutexLock lock(&load_mutex_);
  load_.set_steps(core_.loop().Progress().steps);
  load_.set_step_age_ms(StepAgeMs());
  return load_;
}

int64_t WorkerProcess::StepAgeMs() const {
  const engine::LoopProgress progress = core_.loop().Progress();
  return progress.step_began.has_value() ? (MonotonicClock().Now() - *progress.step_began) / kNsPerMs : 0;
}

absl::Status WorkerProcess::Ready() const {
  if (draining_) return absl::UnavailableError("the worker is draining");
  if (!is_member()) {
    const std::string names = links_->Names();
    return absl::UnavailableError(names.empty() ? "the worker knows of no router yet"
                                                : absl::StrCat("the worker has not joined the router at ", names));
  }
  BATON_RETURN_IF_ERROR(Healthy());
  return can_serve_ ? absl::OkStatus() : absl::UnavailableError("the worker does not serve yet");
}

absl::Status WorkerProcess::Healthy() const {
  const int64_t age_ms = StepAgeMs();
  if (age_ms <= kEngineStallMs) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the engine has been in one step for ", age_ms, " ms"));
}

std::vector<std::shared_ptr<prometheus::Collectable>> WorkerProcess::metrics() const {
  auto sources = metrics_.sources();
  sources.push_back(link_metrics_);
  return sources;
}

void WorkerProcess::AddLinkMetrics() {
  const prometheus::Labels role = {{"role", RoleLabel(options_.role)}};
  link_metrics_->AddGauge(
      "baton_router_connected", "How many of its routers the worker is a member of.",
      [this]() -> double { return static_cast<double>(links_->Members().size()); }, role);
  link_metrics_->AddCounter(
      "baton_router_joins_total", "How often a router has accepted the worker.",
      [this]() -> double { return static_cast<double>(links_->joins()); }, role);
  link_metrics_->AddGauge(
      "baton_engine_step_age_seconds", "Age of the engine's step under way; 0 when there is none.",
      [this]() -> double { return static_cast<double>(StepAgeMs()) / 1e3; }, role);
}

bool WorkerProcess::MayEnd() {
  const std::vector<size_t> members = links_->Members();
  absl::MutexLock lock(&load_mutex_);
  const bool may_get_starts = std::any_of(members.begin(), members.end(), [this](size_t router) {
    load_mutex_.AssertHeld();
    return !drain_accepted_[router];
  });
  // Blocks are referred to until the last reader has them.
  return load_.used_blocks() == 0 && open_calls_ == 0 && !may_get_starts;
}

size_t WorkerProcess::OpenCalls() {
  absl::MutexLock lock(&load_mutex_);
  return open_calls_;
}

int64_t WorkerProcess::FrozenCalls() {
  absl::MutexLock lock(&load_mutex_);
  return frozen_calls_;
}

void WorkerProcess::Drain(int64_t timeout_ms) {
  const TimeNs begin = MonotonicClock().Now();
  spdlog::info("draining: the router is told to place nothing here; open calls: {}, time to end: {} ms", OpenCalls(),
               timeout_ms);
  draining_ = true;
  links_->Drain();
  const TimeNs deadline = After(begin, timeout_ms);
  while (!MayEnd() && MonotonicClock().Now() < deadline) absl::SleepFor(absl::Milliseconds(kDrainPollMs));
  if (!MayEnd()) Cut(timeout_ms);
  spdlog::info("drained in {:.1f} s; running requests that went on elsewhere: {}",
               NsToMs(MonotonicClock().Now() - begin) / 1e3, FrozenCalls());
}

void WorkerProcess::Cut(int64_t timeout_ms) {
  struct Left {
    std::vector<ChoiceKey> cut;
    int32_t held_blocks = 0;
    absl::Notification known;
  };
  // The loop may come to it later than this waits.
  const auto left = std::make_shared<Left>();
  core_.loop().PostWhenRoom([this, left, timeout_ms] {
    // Before the sequences are stopped.
    const int32_t used_blocks = core_.Load().used_blocks;
    left->cut = calls_.CutAll(timeout_ms);
    left->held_blocks = left->cut.empty() ? used_blocks : 0;
    left->known.Notify();
  });
  if (!left->known.WaitForNotificationWithTimeout(absl::Milliseconds(kCutMs))) {
    spdlog::error(
        "the drain time-out of {} ms is over, and the engine has been in one step for more than {} ms: "
        "its requests are cut without a word",
        timeout_ms, kCutMs);
  } else if (!left->cut.empty()) {
    spdlog::warn(DescribeCut(left->cut, timeout_ms));
  } else if (left->held_blocks > 0) {
    spdlog::warn(
        "the drain time-out of {} ms is over: readers have not given back {} KV blocks, so that their requests "
        "may fail",
        timeout_ms, left->held_blocks);
  } else {
    spdlog::warn("a router has not confirmed within {} ms that it places nothing here any more", timeout_ms);
  }
}

// The process ends from the outside in: first nobody calls, then nobody computes, then nobody copies.
WorkerProcess::~WorkerProcess() {
  if (links_ != nullptr) links_->Stop();
  if (server_.server != nullptr) rpc::StopGrpcServer(*server_.server, kServerStopMs);
  core_.loop().Stop();
  if (loop_thread_.joinable()) loop_thread_.join();
  compiles_.Stop();
  masks_.Stop();
  fetcher_.Stop();
}

}  // namespace baton::worker
