#include "cli/bench_engine_command.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/engine/attention_bench.h"
#include "bench/engine/figure.h"
#include "bench/engine/generation_bench.h"
#include "bench/engine/handoff_bench.h"
#include "bench/engine/model_cost.h"
#include "bench/engine/scheduling_bench.h"
#include "bench/machine/machine_limits.h"
#include "cli/model_device.h"
#include "cli/model_loading.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/clock.h"
#include "common/status.h"
#include "engine/cpu_model.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxPromptTokens = 1 << 16;
constexpr int kMaxPrompts = 256;
constexpr int kMaxRounds = 100;

struct EngineBenchFlags : KernelFlags {
  std::string model;
  std::vector<std::string> only = {"limits", "handoff", "scheduling", "attention", "prefill", "decode"};
  std::vector<std::string> prefill = {"512", "2048"};
  std::vector<int> chunk_tokens = {256, 512};
  std::vector<int> decode = {1, 8, 32};
  int context = 32;
  int decode_steps = 64;
  int rounds = 3;
  int read_mib = 512;
  uint64_t seed = 1;
  bool json = false;
};

// Reads the number of prompts and their length from "512" or "8x2048".
bool ParsePrompts(const std::string& text, bench::PrefillShape& shape) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  shape.prompts = 1;
  return parts.size() <= 2 && (parts.size() == 1 || absl::SimpleAtoi(parts.front(), &shape.prompts)) &&
         absl::SimpleAtoi(parts.back(), &shape.prompt_tokens) && shape.prompts >= 1 && shape.prompts <= kMaxPrompts &&
         shape.prompt_tokens >= 1 && shape.prompt_tokens <= kMaxPromptTokens;
}

// One run of the command: what was asked for, and what was measured so far.
class EngineBench {
 public:
  explicit EngineBench(const EngineBenchFlags& flags) : flags_(flags) {
    flags_.threads = engine::KernelThreads(flags_.threads);
  }

  absl::Status Run() {
    BATON_RETURN_IF_ERROR(Measure());
    if (flags_.json) {
      std::cout << ToJson().dump() << std::endl;
    } else {
      PrintTable();
    }
    return absl::OkStatus();
  }

 private:
  bool Wants(const std::string& part) const {
    return std::find(flags_.only.begin(), flags_.only.end(), part) != flags_.only.end();
  }

  absl::Status Measure() {
    const TimeNs begin = MonotonicClock().Now();
    BATON_ASSIGN_OR_RETURN(device_, ChooseDevice(flags_));
    BATON_ASSIGN_OR_RETURN(model_, LoadModelFile(flags_.model));
    open_s_ = static_cast<double>(MonotonicClock().Now() - begin) / kNsPerSecond;
    // The hand-off comes first because it forks, which must happen before the first thread starts.
    if (Wants("handoff")) BATON_RETURN_IF_ERROR(MeasureHandoff());
    limits_ = bench::MeasureLimits({.threads = flags_.threads, .read_bytes = int64_t{flags_.read_mib} << 20});
    if (Wants("scheduling")) Add(bench::BenchScheduling({.vocab_size = model_.file->config().vocab_size}));
    if (Wants("attention") && device_.plugin != nullptr) {
      std::cerr << "attention by itself is measured on the CPU alone: left out" << std::endl;
    } else if (Wants("attention")) {
      Add(bench::BenchAttention(model_.file->config(),
                                {.isa = ParseIsa(flags_.isa),
                                 .kv_dtype = ParseKvDtype(flags_),
                                 .threads = flags_.threads,
                                 .rounds = flags_.rounds},
                                limits_));
    }
    if (Wants("prefill") || Wants("decode")) return MeasureGeneration();
    return absl::OkStatus();
  }

  absl::Status MeasureHandoff() {
    const KvLayout layout = engine::KvLayoutOf(model_.file->config(), ParseKvDtype(flags_));
    BATON_ASSIGN_OR_RETURN(std::vector<bench::Figure> figures,
                           bench::BenchHandoff({.block_bytes = layout.block_bytes()}));
    Add(std::move(figures));
    return absl::OkStatus();
  }

  absl::Status MeasureGeneration() {
    const int max_chunk = *std::max_element(flags_.chunk_tokens.begin(), flags_.chunk_tokens.end());
    const int max_streams = *std::max_element(flags_.decode.begin(), flags_.decode.end());
    engine::CpuModelOptions options;
    options.numerics = ParseNumerics(flags_.numerics);
    options.kv_dtype = ParseKvDtype(flags_);
    options.isa = ParseIsa(flags_.isa);
    options.weights = ParseWeights(flags_.weights);
    options.threads = flags_.threads;
    options.max_sequences = std::max(max_streams, kMaxPrompts);
    options.max_rows = std::max(max_chunk, bench::DecodeChunkTokens(max_streams)) + options.max_sequences;
    BATON_RETURN_IF_ERROR(Load(options));
    cost_ = bench::CostOf(*model_.file, options, static_cast<int64_t>(runner_->kv_layout().token_bytes()));
    const bench::DecodeShape largest{
        .streams = max_streams, .context_tokens = flags_.context, .steps = flags_.decode_steps};
    BATON_RETURN_IF_ERROR(CheckContext(bench::DecodeTokens(largest)));
    weight_bytes_ = engine::PackedWeightBytes(*model_.file, options.numerics, options.weights);
    memory_ = bench::MeasureMemory(*runner_, largest, flags_.seed);
    if (Wants("prefill")) BATON_RETURN_IF_ERROR(MeasurePrefill());
    return Wants("decode") ? MeasureDecode() : absl::OkStatus();
  }

  absl::Status Load(const engine::CpuModelOptions& options) {
    if (const std::string line = DescribeWeights(model_, options); !line.empty()) std::cerr << line << std::endl;
    const TimeNs begin = MonotonicClock().Now();
    BATON_ASSIGN_OR_RETURN(runner_, LoadRunner(model_, options, device_, /*shows_progress=*/!flags_.json));
    load_s_ = open_s_ + static_cast<double>(MonotonicClock().Now() - begin) / kNsPerSecond;
    return absl::OkStatus();
  }

  absl::Status MeasurePrefill() {
    for (const std::string& prompts : flags_.prefill) {
      bench::PrefillShape shape;
      ParsePrompts(prompts, shape);
      BATON_RETURN_IF_ERROR(CheckContext(shape.prompt_tokens + 1));
      for (int chunk : flags_.chunk_tokens) {
        // A chunk longer than a prompt computes the prompt in one step.
        shape.chunk_tokens = chunk;
        bench::Figure figure = bench::BenchPrefill(*runner_, shape, {.rounds = flags_.rounds, .seed = flags_.seed});
        const double tokens = static_cast<double>(shape.prompts) * shape.prompt_tokens;
        SetLimit(bench::PrefillWork(cost_, shape), tokens, figure);
        figures_.push_back(std::move(figure));
      }
    }
    return absl::OkStatus();
  }

  absl::Status MeasureDecode() {
    for (int streams : flags_.decode) {
      const bench::DecodeShape shape{
          .streams = streams, .context_tokens = flags_.context, .steps = flags_.decode_steps};
      BATON_RETURN_IF_ERROR(CheckContext(bench::DecodeTokens(shape)));
      bench::Figure figure = bench::BenchDecode(*runner_, shape, {.rounds = flags_.rounds, .seed = flags_.seed});
      SetLimit(bench::DecodeWork(cost_, shape), static_cast<double>(streams) * shape.steps, figure);
      figures_.push_back(std::move(figure));
    }
    return absl::OkStatus();
  }

  absl::Status CheckContext(int tokens) const {
    if (tokens <= runner_->context_length()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(tokens, " tokens do not fit the model's context of ",
                                                   runner_->context_length(),
                                                   ": ask for shorter prompts or fewer steps"));
  }

  void SetLimit(const bench::Work& work, double tokens, bench::Figure& figure) const {
    // The limits are those of the processor.
    if (device_.plugin != nullptr) return;
    const bench::LimitTime limit = bench::LimitOf(work, limits_);
    figure.limit = tokens / limit.seconds;
    figure.bound = limit.bound;
  }

  void Add(std::vector<bench::Figure> figures) {
    for (bench::Figure& figure : figures) figures_.push_back(std::move(figure));
  }

  // A device has numerics of its own, and weights and KV in its own memory.
  std::string Numerics() const { return device_.plugin == nullptr ? flags_.numerics : "cuda-bf16"; }

  // Resident bytes that are neither weights nor KV.
  int64_t OtherBytes() const { return memory_.resident_bytes - weight_bytes_ - memory_.kv_pool_bytes; }

  Json ToJson() const {
    Json json = {{"model", model_.name},      {"device", device_.Name()},
                 {"numerics", Numerics()},    {"kv_dtype", KvDtypeName(ParseKvDtype(flags_))},
                 {"weights", flags_.weights}, {"seed", flags_.seed}};
    if (!device_.why_cpu.empty()) json["device_reason"] = device_.why_cpu;
    if (runner_ != nullptr) {
      json["load_s"] = load_s_;
      if (device_.plugin == nullptr) {
        json["memory"] = {{"weight_bytes", weight_bytes_},
                          {"kv_pool_bytes", memory_.kv_pool_bytes},
                          {"resident_bytes", memory_.resident_bytes},
                          {"other_bytes", OtherBytes()}};
      }
      json["fingerprint"] = runner_->fingerprint();
    }
    json["limits"] = bench::LimitsJson(limits_);
    json["figures"] = Json::array();
    for (const bench::Figure& figure : figures_) json["figures"].push_back(bench::FigureJson(figure));
    return json;
  }

  void PrintTable() const {
    std::cout << bench::LimitsTable(limits_);
    if (figures_.empty()) return;
    std::cout << "\n"
              << model_.name << ", " << device_.Name() << ", " << Numerics() << ", "
              << KvDtypeName(ParseKvDtype(flags_)) << " KV, median of " << flags_.rounds << "\n";
    if (!device_.why_cpu.empty()) std::cout << device_.why_cpu << "\n";
    if (runner_ != nullptr && device_.plugin == nullptr) {
      std::cout << absl::StreamFormat(
          "loaded in %.2f s; %.1f MiB resident besides mapped files: weights %.1f, KV pool %.1f, others %.1f\n",
          load_s_, Mib(memory_.resident_bytes), Mib(weight_bytes_), Mib(memory_.kv_pool_bytes), Mib(OtherBytes()));
    }
    for (const bench::Figure& figure : figures_) std::cout << bench::FigureLine(figure);
    std::cout << std::flush;
  }

  EngineBenchFlags flags_;
  ModelDevice device_;
  LoadedModelFile model_;
  bench::MachineLimits limits_;
  std::unique_ptr<engine::ModelRunner> runner_;
  double open_s_ = 0;
  // Includes open_s_.
  double load_s_ = 0;
  int64_t weight_bytes_ = 0;
  bench::MemoryUse memory_;
  bench::ModelCost cost_;
  std::vector<bench::Figure> figures_;
};

CLI::Validator Prompts() {
  return CLI::Validator(
      [](std::string& text) {
        bench::PrefillShape shape;
        return ParsePrompts(text, shape) ? std::string() : "not a prompt such as 512 or 8x2048: " + text;
      },
      "[N x]TOKENS");
}

}  // namespace

void AddBenchEngineCommand(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<EngineBenchFlags>();
  CLI::App* command =
      bench.add_subcommand("engine", "measures the engine and its parts beside the limits of this machine");
  AddModelFlag(*command, flags->model);
  AddKernelFlags(*command, *flags);
  command->add_option("--only", flags->only, "parts to measure besides the limits")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(flags->only)))
      ->capture_default_str();
  command->add_option("--prefill", flags->prefill, "prompts, as 512 or 8x2048")
      ->delimiter(',')
      ->check(Prompts())
      ->capture_default_str();
  command->add_option("--chunk-tokens", flags->chunk_tokens, "chunk sizes of prefill; each is measured")
      ->delimiter(',')
      ->check(CLI::Range(kMinChunkTokens, kMaxChunkTokens))
      ->capture_default_str();
  command->add_option("--decode", flags->decode, "numbers of decode streams; each is measured")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxSequences))
      ->capture_default_str();
  command->add_option("--context", flags->context, "prompt tokens of a decode stream")
      ->check(CLI::Range(1, kMaxPromptTokens))
      ->capture_default_str();
  command->add_option("--decode-steps", flags->decode_steps)
      ->check(CLI::Range(1, kMaxPromptTokens))
      ->capture_default_str();
  command->add_option("--rounds", flags->rounds, "rounds of each figure, of which the median counts")
      ->check(CLI::Range(1, kMaxRounds))
      ->capture_default_str();
  command
      ->add_option("--read-mib", flags->read_mib, "size of the buffer that measures memory; it must exceed the caches")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "seed of the prompts")->capture_default_str();
  command->add_flag("--json", flags->json);
  command->callback([flags, &exit_code] { exit_code = Report(EngineBench(*flags).Run()); });
}

}  // namespace baton::cli
