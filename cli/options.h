// Flags that several commands share.
#ifndef BATON_CLI_OPTIONS_H_
#define BATON_CLI_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/security_flags.h"
#include "common/drain.h"
#include "common/kv_layout.h"
#include "common/limits.h"
#include "common/log.h"
#include "engine/core_arbiter.h"
#include "engine/cpu_model.h"
#include "kvtransfer/transport.h"
#include "router/live_jobs.h"

namespace baton::cli {

// Exit codes of the contract.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

inline constexpr int kDefaultGrpcPort = 50051;
inline constexpr int kDefaultClusterPort = 50050;
inline constexpr int kDefaultAdminPort = 9464;
inline constexpr int kDefaultHttpPort = 8000;

// The size of a KV pool in the host's memory where nothing is said.
inline constexpr char kHostKvMemory[] = "512MiB";
// The name of the type of a flag that takes a number above 0 and up to 1.
inline constexpr char kShareType[] = "SHARE";
// The share of a device's memory where nothing is said.
inline constexpr double kGpuMemoryUtilization = 0.9;

// Where a process listens: the options that `serve` keeps to itself and does not forward to its workers.
inline constexpr char kAddressGroup[] = "Address";
// What only our own processes set, on those that they start. Help does not show it, and it has no twin in the
// environment and no key in a file.
inline constexpr char kInternalGroup[] = "";

// What MODEL may be (modelfile::ResolveModel).
inline constexpr char kModelHelp[] = "a .gguf file, a Hugging Face directory, or a name from the model store";

// How the kernels compute.
struct KernelFlags {
  std::string device = "auto";
  int threads = 0;
  std::string numerics = "exact";
  std::string kv_dtype = "auto";
  std::string isa = "auto";
  std::string weights = "auto";
};

// What a worker computes with.
struct EngineFlags : KernelFlags {
  std::string model;
  // At most one of the two is given. Empty: kHostKvMemory on the CPU, and on a device what the share of its memory
  // leaves.
  std::string kv_memory;
  // Above 0 and up to 1.
  std::optional<double> gpu_memory_utilization;
  int max_seqs = 64;
  // 0 leaves the choice to the worker's role.
  int chunk_tokens = 0;
  bool no_prefix_cache = false;
  std::string transport = "auto";
  bool insecure_kv_transport = false;
  int decode_period_ms = engine::kDecodePeriodMs;
};

// Where a long-running process listens, and how it ends.
struct ListenFlags {
  std::string bind = "127.0.0.1";
  int grpc_port = 0;
  std::string log_level = "info";
  std::string log_format = "text";
  int drain_timeout_ms = kDrainTimeoutMs;
  TlsFlags tls;
};

// Where a router listens.
struct RouterListenFlags : ListenFlags {
  std::optional<int> cluster_port;

  // Where nothing is said, any free port if --grpc-port takes any: several clusters then run on one host.
  int ClusterPort() const { return cluster_port.value_or(grpc_port == 0 ? 0 : kDefaultClusterPort); }
  // The same for the ports of the admin server and of HTTP clients.
  int AdminPort() const { return grpc_port == 0 ? 0 : kDefaultAdminPort; }
  int HttpPort() const { return grpc_port == 0 ? 0 : kDefaultHttpPort; }
};

// What a router decides.
struct RouterFlags {
  int max_queued_jobs = kMaxQueuedJobs;
  int local_prefill_tokens = 0;
  int ttft_target_ms = 1500;
  // Only counted, together with the former.
  int itl_target_ms = 100;
  int worker_silence_ms = kWorkerSilenceMs;
  int64_t canary_interval_ms = 0;
  // 0: no bounds.
  int tenant_tokens_per_second = 0;
  // 0: the tokens of some seconds.
  int tenant_burst_tokens = 0;
  // Empty: jobs do not outlive the process.
  std::string state_dir;
  int64_t state_retention_ms = router::kStateRetentionMs;
  bool access_log = false;
  bool trace_content = false;
  ClientAccessFlags access;
};

inline constexpr int kMinChunkTokens = 16;
inline constexpr int kMaxChunkTokens = 8192;
inline constexpr int kMaxDecodePeriodMs = 1000;
inline constexpr int kMaxTtftTargetMs = 600'000;
inline constexpr int kMaxItlTargetMs = 60'000;
// A day.
inline constexpr int64_t kMaxStateRetentionMs = 86'400'000;
inline constexpr int kMaxTenantTokens = 1'000'000'000;
// A few heartbeats at least.
inline constexpr int kMinWorkerSilenceMs = 500;
inline constexpr int kMaxWorkerSilenceMs = 600'000;
inline constexpr int64_t kMaxCanaryIntervalMs = 3'600'000;
// Larger chunks compute faster. In a worker that also decodes, smaller ones make its streams stutter less.
inline constexpr int kPrefillWorkerChunkTokens = 512;
inline constexpr int kDecodingWorkerChunkTokens = 256;

// --device, --threads, --numerics, --kv-dtype, --isa, --weights. `flags` outlives `app`.
void AddKernelFlags(CLI::App& app, KernelFlags& flags);
engine::Isa ParseIsa(const std::string& name);
engine::Numerics ParseNumerics(const std::string& name);
// Requires flags that passed the parser's checks.
KvDtype ParseKvDtype(const KernelFlags& flags);
engine::Weights ParseWeights(const std::string& name);
void AddEngineFlags(CLI::App& app, EngineFlags& flags);
void AddListenFlags(CLI::App& app, ListenFlags& flags, int default_grpc_port);
LogFormat ParseLogFormat(const std::string& name);
// The same for a router, whose gRPC port is kDefaultGrpcPort unless another is named, and --cluster-port.
void AddRouterListenFlags(CLI::App& app, RouterListenFlags& flags);
void AddRouterFlags(CLI::App& app, RouterFlags& flags);
// Adds --model MODEL, for commands that do not take MODEL as a position.
void AddModelFlag(CLI::App& app, std::string& model);
// Adds --served-model-name, of the processes of a cluster; empty: the model's own name.
void AddServedModelNameFlag(CLI::App& app, std::string& name);
// Adds --model MODEL, which may also be a position.
void AddModelPosition(CLI::App& app, std::string& model);
// Adds --served-model-name, for clients: they ask for a model by the name that its router gives it. --model is another
// spelling of this flag, but BATON_ARG_MODEL and the key `model` are the model itself and no name for clients.
void AddClientModelFlag(CLI::App& app, std::string& name);

// Accepts "50070-50079".
CLI::Validator PortRange();
std::optional<kvtransfer::PortRange> ParsePortRange(const std::string& text);

// Accept "a:50050" and "a:50050,b:50050". ParseRouters returns nothing for what is not a list of at most kMaxRouters
// different addresses.
CLI::Validator RouterList();
std::vector<std::string> ParseRouters(const std::string& text);

// Accept "512MiB", "2GiB", "1000000". ParseByteSize returns 0 for what is not a size.
CLI::Validator ByteSize();
uint64_t ParseByteSize(const std::string& text);

}  // namespace baton::cli

#endif  // BATON_CLI_OPTIONS_H_
