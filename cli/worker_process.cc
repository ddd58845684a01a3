#include "cli/worker_process.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/model_loading.h"
#include "cli/transport_report.h"
#include "common/log.h"
#include "common/process_memory.h"
#include "common/random.h"
#include "common/status.h"
#include "engine/cpu_model.h"

namespace baton::cli {
namespace pb = internal::v1;
namespace {

constexpr int64_t kDrainPollMs = 20;
// Of each group, in one read of a hand-off.
constexpr int32_t kTokenBlocksPerRead = 8;
constexpr std::chrono::seconds kServerStopTime{1};
// What ten prompts of 512 tokens take of SmolLM2.
constexpr size_t kPopulateAheadBytes = size_t{128} << 20;

// The transfer thread, as the decode core sees it.
class TransferFetcher final : public decode_worker::KvFetcher {
 public:
  explicit TransferFetcher(kvtransfer::TransferThread& transfer) : transfer_(transfer) {}
  void Start(const kvtransfer::FetchSpec& spec) override { transfer_.Start(spec); }
  void Cancel(const JobKey& key, const absl::Status& why) override { transfer_.Cancel(key, why); }

 private:
  kvtransfer::TransferThread& transfer_;
};

// Flags whose default depends on the role, decided.
WorkerFlags Decided(pb::WorkerRole role, WorkerFlags flags) {
  if (flags.engine.chunk_tokens == 0) {
    flags.engine.chunk_tokens =
        role == pb::WORKER_ROLE_PREFILL ? kPrefillWorkerChunkTokens : kDecodingWorkerChunkTokens;
  }
  return flags;
}

}  // namespace

WorkerProcess::WorkerProcess(pb::WorkerRole role, const WorkerFlags& flags)
    : role_(role), flags_(Decided(role, flags)) {}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(pb::WorkerRole role, const WorkerFlags& flags) {
  const TimeNs begin = MonotonicClock().Now();
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(role, flags));
  BATON_RETURN_IF_ERROR(worker->LoadModel());
  BATON_RETURN_IF_ERROR(worker->MakePool());
  worker->MakeEngine();
  BATON_RETURN_IF_ERROR(worker->Serve());
  spdlog::info("started in {:.2f} s: {:.1f} MiB resident besides mapped files, of weights {:.1f}; a KV pool of {:.1f}",
               static_cast<double>(MonotonicClock().Now() - begin) / kNsPerSecond, Mib(ResidentBytesBesidesFiles()),
               Mib(worker->weight_bytes_), Mib(static_cast<int64_t>(worker->kv_memory_.size())));
  return worker;
}

absl::Status WorkerProcess::LoadModel() {
  BATON_ASSIGN_OR_RETURN(const LoadedModelFile loaded, LoadModelFile(flags_.engine.model));
  model_name_ = loaded.name;
  eos_ids_ = loaded.file->tokenizer().eos_ids;
  engine::CpuModelOptions options;
  options.numerics = ParseNumerics(flags_.engine.numerics);
  options.kv_dtype = ParseKvDtype(flags_.engine);
  options.isa = ParseIsa(flags_.engine.isa);
  options.weights = ParseWeights(flags_.engine.weights);
  options.threads = flags_.engine.threads;
  if (flags_.core_arbiter_fd >= 0) {
    const engine::CoreArbiterOptions arbiter{.yields = !decodes(),
                                             .period_ns = flags_.engine.decode_period_ms * kNsPerMs};
    BATON_ASSIGN_OR_RETURN(arbiter_, engine::CoreArbiter::Open(flags_.core_arbiter_fd, arbiter, MonotonicClock()));
    options.gate = arbiter_.get();
  }
  options.max_rows = flags_.engine.chunk_tokens + flags_.engine.max_seqs;
  if (const std::string line = DescribeWeights(loaded, options); !line.empty()) spdlog::info(line);
  weight_bytes_ = engine::PackedWeightBytes(*loaded.file, options.numerics, options.weights);
  // Workers of one supervisor would draw over each other.
  BATON_ASSIGN_OR_RETURN(runner_, LoadRunner(loaded, options, /*shows_progress=*/!flags_.supervised));
  return absl::OkStatus();
}

absl::Status WorkerProcess::MakePool() {
  BATON_ASSIGN_OR_RETURN(const kvtransfer::TransportKind kind, kvtransfer::ParseTransportKind(flags_.engine.transport));
  BATON_ASSIGN_OR_RETURN(transport_, kvtransfer::MakeTransport({.kind = kind}));
  const uint64_t block_bytes = runner_->kv_layout().block_bytes();
  const uint64_t blocks = ParseByteSize(flags_.engine.kv_memory) / block_bytes;
  const uint64_t least = 2 * static_cast<uint64_t>(runner_->kv_layout().groups().count());
  if (blocks < least || blocks > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("--kv-memory ", flags_.engine.kv_memory, " holds ", blocks,
                                                   " blocks of ", block_bytes, " bytes: give at least ", least));
  }
  BATON_ASSIGN_OR_RETURN(kv_memory_, transport_->AllocateRegion(blocks * block_bytes));
  pool_.emplace(kv_memory_, block_bytes);
  LogBandwidth(*transport_, kind);
  return absl::OkStatus();
}

void WorkerProcess::MakeEngine() {
  populator_ = std::make_unique<worker::PagePopulator>(kv_memory_, kPopulateAheadBytes);
  engine_ = std::make_unique<engine::Engine>(engine::EngineOptions{.chunk_tokens = flags_.engine.chunk_tokens,
                                                                   .max_sequences = flags_.engine.max_seqs,
                                                                   .eos_ids = eos_ids_,
                                                                   .prefix_cache = !flags_.engine.no_prefix_cache},
                                             *runner_, *pool_);
  const KvLayout& layout = runner_->kv_layout();
  transfer_ = std::make_unique<kvtransfer::TransferThread>(
      *transport_, kvtransfer::KvSinkOptions{.max_blocks_per_read = kTokenBlocksPerRead * layout.groups().count()},
      MonotonicClock(), *pool_,
      kvtransfer::TransferThread::Callbacks{
          .committed =
              [this](const kvtransfer::Committed& done) {
                loop_->PostWhenRoom([this, done] { decode_core_->OnCommitted(done); });
              },
          .failed =
              [this](const kvtransfer::FetchFailed& failed) {
                loop_->PostWhenRoom([this, failed] { decode_core_->OnFetchFailed(failed); });
              }});
  std::vector<engine::PhasePolicy*> policies;
  if (prefills()) {
    MakePrefill();
    policies.push_back(prefill_core_.get());
  }
  if (decodes()) {
    MakeDecode();
    policies.push_back(decode_core_.get());
  }
  loop_ = std::make_unique<engine::EngineLoop>(
      *engine_, MonotonicClock(), policies, [this] { PublishLoad(); }, arbiter_.get());
}

void WorkerProcess::MakePrefill() {
  // The half of the pool that a prompt may need next stays free of finished ones.
  constexpr int32_t kUnfetchedShare = 2;
  source_ = std::make_unique<kvtransfer::KvSource>(
      kvtransfer::KvSourceOptions{.incarnation = incarnation_,
                                  .fingerprint = runner_->fingerprint(),
                                  .transport_address = *transport_->Address(),
                                  .block_bytes = runner_->kv_layout().block_bytes()},
      MonotonicClock());
  fetch_service_ = std::make_unique<kvtransfer::FetchService>(kvtransfer::FetchService::Events{
      .on_request =
          [this](kvtransfer::FetchStreamId stream, const kvtransfer::FetchRequest& request) {
            prefill_worker::PostFetchRequest(*loop_, *prefill_core_, stream, request);
          },
      .on_closed =
          [this](kvtransfer::FetchStreamId stream) {
            prefill_worker::PostFetchClosed(*loop_, *prefill_core_, stream);
          }});
  prefill_core_ = std::make_unique<prefill_worker::PrefillCore>(
      prefill_worker::PrefillOptions{.max_unfetched_blocks = pool_->block_count() / kUnfetchedShare}, MonotonicClock(),
      *engine_, *source_, prefill_streams_, *fetch_service_);
}

void WorkerProcess::MakeDecode() {
  fetcher_ = std::make_unique<TransferFetcher>(*transfer_);
  const int32_t prompt_blocks =
      runner_->kv_layout().groups().MostBlocks(runner_->context_length(), flags_.engine.chunk_tokens);
  const int32_t maximal_prompt = std::min(prompt_blocks, pool_->block_count() / 2);
  decode_core_ = std::make_unique<decode_worker::DecodeCore>(
      decode_worker::DecodeOptions{.max_sequences = flags_.engine.max_seqs,
                                   .headroom_blocks = prefills() ? maximal_prompt : 0,
                                   .fingerprint = runner_->fingerprint()},
      MonotonicClock(), *engine_, *fetcher_, decode_streams_);
}

absl::Status WorkerProcess::Serve() {
  fetch_client_ = std::make_unique<kvtransfer::FetchClient>(kvtransfer::FetchClient::Events{
      .on_reply = [this](kvtransfer::FetchStreamId stream,
                         const kvtransfer::FetchReply& reply) { transfer_->OnReply(stream, reply); },
      .on_closed = [this](kvtransfer::FetchStreamId stream,
                          const absl::Status& status) { transfer_->OnStreamClosed(stream, status); }});
  transfer_->Launch(*fetch_client_);
  loop_thread_ = std::thread([this] { loop_->Run(); });

  std::vector<grpc::Service*> services;
  std::vector<std::string> names;
  if (prefills()) {
    names.push_back(pb::PrefillService::service_full_name());
    prefill_service_ = std::make_unique<prefill_worker::PrefillService>(incarnation_, MonotonicClock(), *loop_,
                                                                        *prefill_core_, prefill_streams_);
    services.push_back(prefill_service_.get());
    services.push_back(fetch_service_.get());
  }
  if (decodes()) {
    names.push_back(pb::DecodeService::service_full_name());
    decode_service_ = std::make_unique<decode_worker::DecodeService>(incarnation_, MonotonicClock(), *loop_,
                                                                     *decode_core_, decode_streams_);
    services.push_back(decode_service_.get());
  }
  BATON_ASSIGN_OR_RETURN(
      server_,
      StartGrpcServer(
          {.bind = flags_.listen.bind, .port = flags_.listen.grpc_port, .services = services, .health_names = names}));

  worker::RouterLink::Options link{.router_target = flags_.router, .hello = {}, .load = [this] { return Load(); }};
  link.hello.set_incarnation(incarnation_.ToHex());
  link.hello.set_role(role_);
  link.hello.set_target(server_.address);
  link.hello.set_model(model_name_);
  link.hello.set_fingerprint(runner_->fingerprint());
  link.hello.set_total_blocks(pool_->block_count());
  link.hello.set_max_sequences(flags_.engine.max_seqs);
  link.hello.set_chunk_tokens(flags_.engine.chunk_tokens);
  link.hello.set_context_length(runner_->context_length());
  link.hello.set_pid(getpid());
  const KvGroups groups = runner_->kv_layout().groups();
  link.hello.set_full_groups(groups.full);
  link.hello.set_sliding_groups(groups.sliding);
  link.hello.set_window(groups.window);
  link_ = std::make_unique<worker::RouterLink>(std::move(link));
  link_->Start();
  return absl::OkStatus();
}

void WorkerProcess::PublishLoad() {
  const engine::EngineLoad load = engine_->Load();
  const int64_t waiting = prefill_core_ == nullptr ? 0 : prefill_core_->waiting_prompt_tokens();
  populator_->SetUsed(static_cast<size_t>(load.touched_end) * runner_->kv_layout().block_bytes());
  absl::MutexLock lock(&load_mutex_);
  load_.set_free_blocks(load.free_blocks);
  load_.set_used_blocks(load.used_blocks);
  load_.set_cached_blocks(load.cached_blocks);
  load_.set_running(load.running + load.preempted);
  load_.set_pending_prompt_tokens(load.pending_prompt_tokens + waiting);
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

// From the outside in: nobody calls, then nobody computes, then nobody copies.
WorkerProcess::~WorkerProcess() {
  if (link_ != nullptr) link_->Stop();
  if (server_.server != nullptr) server_.server->Shutdown(std::chrono::system_clock::now() + kServerStopTime);
  if (loop_ != nullptr) loop_->Stop();
  if (loop_thread_.joinable()) loop_thread_.join();
  if (transfer_ != nullptr) transfer_->Stop();
  fetch_client_.reset();
}

}  // namespace baton::cli
