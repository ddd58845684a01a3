#include "cli/start_worker.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/kv_pool_size.h"
#include "cli/model_device.h"
#include "cli/model_loading.h"
#include "cli/process.h"
#include "cli/transport_report.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/process_memory.h"
#include "common/status.h"
#include "decode_worker/decode_phase.h"
#include "engine/core_arbiter.h"
#include "engine/cpu_model.h"
#include "grammar/vocabulary.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/test_transfer_faults.h"
#include "prefill_worker/prefill_phase.h"
#include "tokenizer/tokenizer.h"
#include "worker/grammar_constraints.h"

namespace baton::cli {
namespace pb = internal::v1;
namespace {

bool Prefills(pb::WorkerRole role) { return role != pb::WORKER_ROLE_DECODE; }
bool Decodes(pb::WorkerRole role) { return role != pb::WORKER_ROLE_PREFILL; }

// In this order a mixed worker's phases are asked whose a sequence is.
std::vector<std::unique_ptr<worker::Phase>> MakePhases(pb::WorkerRole role) {
  std::vector<std::unique_ptr<worker::Phase>> phases;
  if (Prefills(role)) phases.push_back(std::make_unique<prefill_worker::PrefillPhase>());
  if (Decodes(role)) {
    phases.push_back(std::make_unique<decode_worker::DecodePhase>(
        decode_worker::DecodeOptions{.leaves_room_for_prompt = Prefills(role)}));
  }
  return phases;
}

// In a fleet the routers may all be replaced: each has its successor before its last streams have ended.
size_t MaxRouters(const WorkerFlags& flags) {
  return flags.etcd.is_on() ? 2 * kMaxRouters : ParseRouters(flags.router).size();
}

struct LoadedWorker {
  ModelDevice device;
  std::string model;
  std::vector<int32_t> eos_ids;
  int64_t weight_bytes = 0;
  worker::WorkerParts parts;
};

absl::Status LoadModel(pb::WorkerRole role, const WorkerFlags& flags, LoadedWorker& worker) {
  BATON_ASSIGN_OR_RETURN(worker.device, ChooseWorkerDevice(flags.engine));
  const ModelDevice& device = worker.device;
  BATON_ASSIGN_OR_RETURN(const LoadedModelFile loaded, LoadModelFile(flags.engine.model, flags.served_model_name));
  worker.model = loaded.name;
  worker.eos_ids = loaded.file->tokenizer().eos_ids;
  // A worker needs no tokenizer but for grammars: without one it refuses these alone.
  if (auto texts = tokenizer::TokenTexts(loaded.file->tokenizer()); texts.ok()) {
    worker.parts.constraints =
        std::make_unique<worker::GrammarConstraints>(grammar::Vocabulary::Create(*std::move(texts), worker.eos_ids));
  }
  engine::CpuModelOptions options;
  options.numerics = ParseNumerics(flags.engine.numerics);
  options.kv_dtype = ParseKvDtype(flags.engine);
  options.isa = ParseIsa(flags.engine.isa);
  options.weights = ParseWeights(flags.engine.weights);
  options.threads = flags.engine.threads;
  if (flags.core_arbiter_fd >= 0) {
    const engine::CoreArbiterOptions arbiter{.yields = !Decodes(role),
                                             .period_ns = flags.engine.decode_period_ms * kNsPerMs};
    BATON_ASSIGN_OR_RETURN(worker.parts.gate,
                           engine::CoreArbiter::Open(flags.core_arbiter_fd, arbiter, MonotonicClock()));
    options.gate = worker.parts.gate.get();
  }
  options.max_rows = flags.engine.chunk_tokens + flags.engine.max_seqs;
  options.max_sequences = flags.engine.max_seqs;
  if (const std::string line = DescribeWeights(loaded, options); !line.empty()) spdlog::info(line);
  worker.weight_bytes = engine::PackedWeightBytes(*loaded.file, options.numerics, options.weights);
  // Workers of one supervisor would draw over each other.
  BATON_ASSIGN_OR_RETURN(worker.parts.runner,
                         LoadRunner(loaded, options, device, /*shows_progress=*/!flags.supervised));
  // A supervisor says it for all.
  if (!device.why_cpu.empty() && !flags.supervised) spdlog::info(device.why_cpu);
  return absl::OkStatus();
}

// Neither UCX over a network nor NCCL encrypts or authenticates what it sends. The workers of one supervisor share
// memory.
absl::StatusOr<kvtransfer::TransportKind> ChooseTransport(const WorkerFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const kvtransfer::TransportKind kind, kvtransfer::ParseTransportKind(flags.engine.transport));
  if (!flags.listen.tls.is_on() || flags.engine.insecure_kv_transport) return kind;
  if (kind == kvtransfer::TransportKind::kTcp || kind == kvtransfer::TransportKind::kRdma ||
      kind == kvtransfer::TransportKind::kNccl) {
    return absl::InvalidArgumentError(
        absl::StrCat("--transport ", flags.engine.transport,
                     " sends KV in plain text, which TLS does not cover: use --transport grpc, or allow it with "
                     "--insecure-kv-transport"));
  }
  if (kind != kvtransfer::TransportKind::kAuto) return kind;
  return flags.supervised ? kvtransfer::TransportKind::kShm : kvtransfer::TransportKind::kGrpc;
}

// The region lies in the memory that the runner computes in, and has room for its spare blocks.
absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(kvtransfer::Transport& transport, engine::ModelRunner& runner,
                                                   int32_t blocks) {
  const uint64_t all_blocks = static_cast<uint64_t>(blocks) + static_cast<uint64_t>(runner.spare_blocks());
  const uint64_t bytes = all_blocks * runner.kv_layout().block_bytes();
  absl::StatusOr<absl::Span<uint8_t>> region = transport.AllocateRegion(bytes);
  if (runner.memory() == nullptr || !absl::IsResourceExhausted(region.status())) return region;
  return absl::ResourceExhaustedError(absl::StrCat("a KV pool of ", bytes, " bytes: ", region.status().message(),
                                                   ": ask for less (--kv-memory, --gpu-memory-utilization)"));
}

absl::Status AllocateKvMemory(const WorkerFlags& flags, rpc::Credentials* credentials, const ModelDevice& device,
                              worker::WorkerParts& parts) {
  kvtransfer::TransportOptions transport{.bind = flags.listen.bind,
                                         .advertise = flags.advertise,
                                         .tcp_ports = ParsePortRange(flags.transfer_ports),
                                         .credentials = credentials,
                                         .memory = parts.runner->memory()};
  BATON_ASSIGN_OR_RETURN(transport.kind, ChooseTransport(flags));
  BATON_ASSIGN_OR_RETURN(parts.transport, kvtransfer::MakeTransport(transport));
  BATON_ASSIGN_OR_RETURN(parts.transport,
                         kvtransfer::WithTestTransferFaults(std::move(parts.transport), transport.memory));
  BATON_ASSIGN_OR_RETURN(const KvPoolSize size, ChooseKvPoolSize(flags.engine, device, flags.device_workers,
                                                                 kvtransfer::kRegionTailBytes, *parts.runner));
  if (!size.why.empty()) spdlog::info(size.why);
  BATON_ASSIGN_OR_RETURN(const absl::Span<uint8_t> region,
                         AllocateRegion(*parts.transport, *parts.runner, size.blocks));
  BATON_ASSIGN_OR_RETURN(parts.pool, parts.runner->MakeKvPool(size.blocks, region));
  if (parts.pool == nullptr) {
    parts.pool = std::make_unique<HostKvPool>(region, parts.runner->kv_layout().block_bytes());
  }
  LogBandwidth(*parts.transport, transport);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<worker::WorkerProcess>> StartWorker(pb::WorkerRole role, WorkerFlags flags,
                                                                   AdminPort& admin, rpc::Credentials* credentials) {
  const TimeNs begin = MonotonicClock().Now();
  if (flags.engine.chunk_tokens == 0) {
    flags.engine.chunk_tokens = Decodes(role) ? kDecodingWorkerChunkTokens : kPrefillWorkerChunkTokens;
  }
  LoadedWorker loaded;
  BATON_RETURN_IF_ERROR(LoadModel(role, flags, loaded));
  BATON_RETURN_IF_ERROR(AllocateKvMemory(flags, credentials, loaded.device, loaded.parts));
  admin.SetBuildInfo({.model = loaded.model,
                      .numerics = flags.engine.numerics,
                      .transport = std::string(loaded.parts.transport->name())});
  engine::ConstraintSource* const constraints = loaded.parts.constraints.get();
  const int64_t kv_bytes = static_cast<int64_t>(loaded.parts.pool->memory().bytes);
  BATON_ASSIGN_OR_RETURN(auto worker,
                         worker::WorkerProcess::Start({.role = role,
                                                       .model = loaded.model,
                                                       .max_routers = MaxRouters(flags),
                                                       .bind = flags.listen.bind,
                                                       .port = flags.listen.grpc_port,
                                                       .engine = {.chunk_tokens = flags.engine.chunk_tokens,
                                                                  .max_sequences = flags.engine.max_seqs,
                                                                  .eos_ids = loaded.eos_ids,
                                                                  .prefix_cache = !flags.engine.no_prefix_cache,
                                                                  .constraints = constraints},
                                                       .advertise = flags.advertise,
                                                       .admin = admin.address(),
                                                       .credentials = credentials,
                                                       .drain_timeout_ms = flags.listen.drain_timeout_ms,
                                                       .on_drain_ordered = &BeginEnd},
                                                      std::move(loaded.parts), MakePhases(role)));
  spdlog::info("started in {:.2f} s: {:.1f} MiB resident besides mapped files, of weights {:.1f}; a KV pool of {:.1f}",
               static_cast<double>(MonotonicClock().Now() - begin) / kNsPerSecond, Mib(ResidentBytesBesidesFiles()),
               Mib(loaded.weight_bytes), Mib(kv_bytes));
  return worker;
}

}  // namespace baton::cli
