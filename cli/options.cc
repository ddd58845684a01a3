#include "cli/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/limits.h"
#include "engine/device_plugin.h"
#include "modelfile/model_file.h"

namespace baton::cli {
namespace {

constexpr int kMaxThreads = 256;

// Accepts "0.9" and "1".
CLI::Validator Share() {
  return CLI::Validator(
      [](std::string& text) {
        double share = 0;
        return absl::SimpleAtod(text, &share) && share > 0 && share <= 1
                   ? std::string()
                   : absl::StrCat("not a number above 0 and up to 1: ", text);
      },
      kShareType);
}

absl::StatusOr<KvDtype> Choose(const KernelFlags& flags) {
  std::optional<KvDtype> asked;
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kInt8, KvDtype::kF32}) {
    if (flags.kv_dtype == KvDtypeName(dtype)) asked = dtype;
  }
  return engine::ChooseKvDtype(ParseNumerics(flags.numerics), asked);
}

}  // namespace

uint64_t ParseByteSize(const std::string& text) {
  static const std::map<std::string, uint64_t> kUnits = {
      {"", 1},         {"B", 1},          {"K", 1u << 10}, {"KiB", 1u << 10}, {"M", 1u << 20},      {"MiB", 1u << 20},
      {"G", 1u << 30}, {"GiB", 1u << 30}, {"KB", 1000},    {"MB", 1'000'000}, {"GB", 1'000'000'000}};
  constexpr uint64_t kMaxBytes = uint64_t{1} << 44;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  const auto unit = kUnits.find(end);
  const bool digits = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0]));
  if (!digits || unit == kUnits.end() || value == 0 || value > kMaxBytes / unit->second) return 0;
  return value * unit->second;
}

CLI::Validator ByteSize() {
  return CLI::Validator(
      [](std::string& text) {
        return ParseByteSize(text) > 0 ? std::string() : "not a size such as 512MiB or 2GiB: " + text;
      },
      "BYTES");
}

CLI::Validator PortRange() {
  return CLI::Validator(
      [](std::string& text) {
        return ParsePortRange(text).has_value()
                   ? std::string()
                   : absl::StrCat("not a range of at least two ports such as 50070-50079: ", text);
      },
      "FIRST-LAST");
}

CLI::Validator RouterList() {
  return CLI::Validator(
      [](std::string& text) {
        return ParseRouters(text).empty() ? absl::StrCat("not a list of at most ", kMaxRouters,
                                                         " different addresses such as a:50050,b:50050: ", text)
                                          : std::string();
      },
      "HOST:PORT,...");
}

std::vector<std::string> ParseRouters(const std::string& text) {
  std::vector<std::string> routers = absl::StrSplit(text, ',');
  const std::set<std::string> different(routers.begin(), routers.end());
  if (different.size() < routers.size() || different.contains("") || routers.size() > kMaxRouters) return {};
  return routers;
}

std::optional<kvtransfer::PortRange> ParsePortRange(const std::string& text) {
  constexpr int kMaxPort = 65535;
  const std::pair<std::string, std::string> ends = absl::StrSplit(text, absl::MaxSplits('-', 1));
  kvtransfer::PortRange range;
  const bool numbers = absl::SimpleAtoi(ends.first, &range.first) && absl::SimpleAtoi(ends.second, &range.last);
  if (!numbers || range.first < 1 || range.first >= range.last || range.last > kMaxPort) return std::nullopt;
  return range;
}

void AddModelFlag(CLI::App& app, std::string& model) {
  model = modelfile::kDefaultModel;
  app.add_option("--model", model, kModelHelp)->capture_default_str();
}

void AddServedModelNameFlag(CLI::App& app, std::string& name) {
  const auto is_name = [](const std::string& text) {
    const bool printable = std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
    const bool fits = !text.empty() && text.size() <= kMaxWorkerTextBytes;
    return printable && fits ? std::string() : absl::StrCat("not a name of 1 to ", kMaxWorkerTextBytes, " characters");
  };
  app.add_option("--served-model-name", name, "name by which clients ask for the model [that of its file]")
      ->check(CLI::Validator(is_name, "NAME"));
}

void AddModelPosition(CLI::App& app, std::string& model) {
  model = modelfile::kDefaultModel;
  // The position comes before the flag that a --config file adds.
  app.add_option("MODEL,--model", model, kModelHelp)->take_first()->capture_default_str();
}

void AddClientModelFlag(CLI::App& app, std::string& name) {
  app.add_option("--served-model-name,--model", name, "the name by which the router serves the model [its only one]");
}

void AddKernelFlags(CLI::App& app, KernelFlags& flags) {
  const auto is_device = [](const std::string& text) {
    return engine::ParseDevice(text).has_value() ? std::string()
                                                 : absl::StrCat("not auto, cpu, cuda or cuda:N: ", text);
  };
  app.add_option("--device", flags.device,
                 "what computes: cpu, or cuda:N, a CUDA device; auto: a CUDA device where one can be used")
      ->check(CLI::Validator(is_device, "auto|cpu|cuda[:N]"))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "kernel threads per worker; 0: one per core")
      ->check(CLI::Range(0, kMaxThreads))
      ->capture_default_str();
  app.add_option("--numerics", flags.numerics, "exact (the same bits everywhere) or fp32 (the reference)")
      ->check(CLI::IsMember({"exact", "fp32"}))
      ->capture_default_str();
  app.add_option("--kv-dtype", flags.kv_dtype,
                 "type of the KV cache: bf16 or int8 with exact, f32 with fp32; auto: bf16 or f32")
      ->check(CLI::IsMember({"auto", "bf16", "int8", "f32"}))
      ->capture_default_str();
  app.add_option("--isa", flags.isa, "instruction set of the kernels")
      ->check(CLI::IsMember({"auto", "scalar", "avx2", "avx512"}))
      ->capture_default_str();
  app.add_option("--weights", flags.weights, "float matrices of the file: kept as they are (auto) or quantized at load")
      ->check(CLI::IsMember({"auto", "int8", "int4"}))
      ->capture_default_str();
  // A check of one flag cannot see whether the two fit together.
  app.parse_complete_callback([&flags] {
    const absl::StatusOr<KvDtype> chosen = Choose(flags);
    if (!chosen.ok()) throw CLI::ValidationError("--kv-dtype", std::string(chosen.status().message()));
  });
}

KvDtype ParseKvDtype(const KernelFlags& flags) { return *Choose(flags); }

engine::Numerics ParseNumerics(const std::string& name) {
  return name == "fp32" ? engine::Numerics::kFp32 : engine::Numerics::kExact;
}

engine::Isa ParseIsa(const std::string& name) {
  return name == "scalar"   ? engine::Isa::kScalar
         : name == "avx2"   ? engine::Isa::kAvx2
         : name == "avx512" ? engine::Isa::kAvx512Vnni
                            : engine::Isa::kAuto;
}

engine::Weights ParseWeights(const std::string& name) {
  return name == "int8" ? engine::Weights::kInt8 : name == "int4" ? engine::Weights::kInt4 : engine::Weights::kAuto;
}

void AddEngineFlags(CLI::App& app, EngineFlags& flags) {
  AddKernelFlags(app, flags);
  CLI::Option* const kv_memory =
      app.add_option("--kv-memory", flags.kv_memory,
                     "size of a worker's KV pool; on a device the default is what --gpu-memory-utilization leaves")
          ->check(ByteSize())
          ->default_str(kHostKvMemory);
  app.add_option("--gpu-memory-utilization", flags.gpu_memory_utilization,
                 "on a device: the share of its memory that a worker takes, with weights, scratch and KV pool; the "
                 "workers of one `serve` on a device divide it")
      ->check(Share())
      ->excludes(kv_memory)
      ->default_str(absl::StrCat(kGpuMemoryUtilization));
  app.add_option("--max-seqs", flags.max_seqs, "most sequences in one batch")
      ->check(CLI::Range(1, kMaxSequences))
      ->capture_default_str();
  app.add_option("--chunk-tokens", flags.chunk_tokens,
                 "prompt tokens per step; 0: 512 for a prefill worker, 256 for a worker that decodes")
      ->check(CLI::IsMember({0}) | CLI::Range(kMinChunkTokens, kMaxChunkTokens))
      ->capture_default_str();
  app.add_flag("--no-prefix-cache", flags.no_prefix_cache, "compute every prompt from its first token");
  app.add_option("--transport", flags.transport, "how KV blocks travel: auto, shm, tcp, rdma, grpc or nccl")
      ->check(CLI::IsMember({"auto", "shm", "tcp", "rdma", "grpc", "nccl"}))
      ->capture_default_str();
  app.add_flag("--insecure-kv-transport", flags.insecure_kv_transport,
               "with TLS: KV may travel over TCP, RDMA or NCCL all the same, in plain text");
  app.add_option("--decode-period-ms", flags.decode_period_ms,
                 "on shared cores: how often running streams get a step while prompts are computed")
      ->check(CLI::Range(1, kMaxDecodePeriodMs))
      ->capture_default_str();
}

void AddListenFlags(CLI::App& app, ListenFlags& flags, int default_grpc_port) {
  flags.grpc_port = default_grpc_port;
  app.add_option("--bind", flags.bind, "address to listen on")->group(kAddressGroup)->capture_default_str();
  app.add_option("--grpc-port", flags.grpc_port, "0: any free port")
      ->check(CLI::Range(0, 65535))
      ->group(kAddressGroup)
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level)
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", flags.log_format, "text, or json: one object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--drain-timeout-ms", flags.drain_timeout_ms,
                 "how long running requests have to end after SIGTERM or SIGINT; 0: they are cut at once")
      ->check(CLI::Range(0, kMaxDrainTimeoutMs))
      ->capture_default_str();
  AddTlsFlags(app, flags.tls);
}

LogFormat ParseLogFormat(const std::string& name) { return name == "json" ? LogFormat::kJson : LogFormat::kText; }

void AddRouterListenFlags(CLI::App& app, RouterListenFlags& flags) {
  AddListenFlags(app, flags, kDefaultGrpcPort);
  app.add_option("--cluster-port", flags.cluster_port,
                 "workers join here; 0, or --grpc-port 0 without this flag: any free port")
      ->check(CLI::Range(0, 65535))
      ->group(kAddressGroup)
      ->default_str(std::to_string(kDefaultClusterPort));
}

void AddRouterFlags(CLI::App& app, RouterFlags& flags) {
  app.add_option("--max-queued-jobs", flags.max_queued_jobs,
                 "most requests that may wait; further ones get RESOURCE_EXHAUSTED")
      ->check(CLI::Range(1, kMaxRunningJobs))
      ->capture_default_str();
  app.add_option("--local-prefill-tokens", flags.local_prefill_tokens,
                 "the decode worker itself computes prompts shorter than this; 0: none")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--ttft-target-ms", flags.ttft_target_ms,
                 "a request that can no longer get its first token within this time lets others go first; 0: off")
      ->check(CLI::Range(0, kMaxTtftTargetMs))
      ->capture_default_str();
  app.add_option("--itl-target-ms", flags.itl_target_ms,
                 "goodput counts requests that keep --ttft-target-ms and this mean time between tokens; 0: any")
      ->check(CLI::Range(0, kMaxItlTargetMs))
      ->capture_default_str();
  app.add_option("--worker-silence-ms", flags.worker_silence_ms,
                 "a worker that is not heard for this long is lost, and its requests go on elsewhere")
      ->check(CLI::Range(kMinWorkerSilenceMs, kMaxWorkerSilenceMs))
      ->capture_default_str();
  app.add_option(
         "--canary-interval-ms", flags.canary_interval_ms,
         "a pair of workers without a hand-off for this long is tried with a request of the router's own; 0: off")
      ->check(CLI::Range(int64_t{0}, kMaxCanaryIntervalMs))
      ->capture_default_str();
  app.add_option("--tenant-tokens-per-second", flags.tenant_tokens_per_second,
                 "what each tenant may use in the long run, where an output token counts twice; 0: any")
      ->check(CLI::Range(0, kMaxTenantTokens))
      ->capture_default_str();
  app.add_option("--tenant-burst-tokens", flags.tenant_burst_tokens,
                 "what a tenant may use at once that has used nothing lately; 0: the tokens of 10 seconds")
      ->check(CLI::Range(0, kMaxTenantTokens))
      ->capture_default_str();
  app.add_option("--state-dir", flags.state_dir,
                 "folder of the journal, from which a restarted router takes up the requests that ask to be kept");
  app.add_option("--state-retention-ms", flags.state_retention_ms,
                 "how long a request that asks to be kept is kept after its end")
      ->check(CLI::Range(int64_t{1}, kMaxStateRetentionMs))
      ->capture_default_str();
  app.add_flag("--access-log", flags.access_log, "logs a line for each request that has ended");
  app.add_flag("--trace-content", flags.trace_content, "spans have the text of prompts and answers");
  AddClientAccessFlags(app, flags.access);
}

}  // namespace baton::cli
