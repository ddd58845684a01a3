#include "cli/bench_serve_command.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "bench/load/grpc_client.h"
#include "bench/load/latency_plot.h"
#include "bench/load/load_report.h"
#include "bench/load/load_runner.h"
#include "bench/load/load_setting.h"
#include "bench/load/openai_client.h"
#include "bench/load/progress.h"
#include "bench/load/summary.h"
#include "bench/load/workload.h"
#include "cli/grammar_flags.h"
#include "cli/input_file.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/process.h"
#include "cli/router_channel.h"
#include "common/status.h"

namespace baton::cli {
namespace {

// In an open loop, this many requests may wait for a slow server before the generator holds further ones back.
constexpr int kOpenLoopConcurrency = 256;
constexpr int kOpenAiVocabulary = 32000;
// A trace has one line for each request.
constexpr size_t kMaxTraceBytes = 64 * static_cast<size_t>(bench::kMaxRequests);

struct ServeBenchFlags {
  std::string backend = "grpc";
  TargetFlags router;
  std::string base_url = "http://127.0.0.1:8080/v1";
  std::string model;
  int32_t vocab_size = 0;
  int requests = 64;
  int concurrency = 0;
  double request_rate = 0;
  std::string trace;
  std::string prompt_tokens = "256";
  std::string output_tokens = "128";
  GrammarFlags grammar;
  int warmup = 2;
  uint64_t seed = 1;
  bench::Slo slo;
  int64_t timeout_ms = 600'000;
  std::string plot;
  bool records = false;
  bool json = false;
};

// A client that reached its server, and the vocabulary that prompts are drawn from.
struct Connection {
  std::unique_ptr<bench::LoadClient> client;
  std::string target;
  std::string model;
  int32_t vocab_size = 0;
  std::optional<bench::ClusterShape> cluster;
};

absl::StatusOr<Connection> ConnectGrpc(const ServeBenchFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto channel, OpenChannel(flags.router));
  auto client = std::make_unique<bench::GrpcClient>(bench::GrpcClientOptions{.target = flags.router.target,
                                                                             .channel = channel,
                                                                             .model = flags.model,
                                                                             .grammar = GrammarOf(flags.grammar),
                                                                             .timeout_ms = flags.timeout_ms});
  BATON_ASSIGN_OR_RETURN(const v1::Model model, client->FindModel());
  std::optional<bench::ClusterShape> cluster = client->FindCluster(model.name());
  return Connection{.client = std::move(client),
                    .target = flags.router.target,
                    .model = model.name(),
                    .vocab_size = flags.vocab_size > 0 ? flags.vocab_size : model.vocab_size(),
                    .cluster = cluster};
}

// "json_schema", or empty where no flag asks for a grammar.
std::string GrammarKindOf(const ServeBenchFlags& flags) {
  const v1::Grammar grammar = GrammarOf(flags.grammar);
  const auto* source = v1::Grammar::descriptor()->FindFieldByNumber(grammar.source_case());
  return source != nullptr ? source->name() : "";
}

absl::StatusOr<Connection> ConnectOpenAi(const ServeBenchFlags& flags) {
  if (!GrammarKindOf(flags).empty()) {
    return absl::InvalidArgumentError("grammars need the backend grpc: leave out --backend openai");
  }
  bench::OpenAiClientOptions options{.model = flags.model, .timeout_ms = flags.timeout_ms};
  BATON_ASSIGN_OR_RETURN(options.base, bench::ParseBaseUrl(flags.base_url));
  auto client = std::make_unique<bench::OpenAiClient>(options);
  if (options.model.empty()) {
    BATON_ASSIGN_OR_RETURN(options.model, client->FindModel());
    client->set_model(options.model);
  }
  return Connection{.client = std::move(client),
                    .target = flags.base_url,
                    .model = options.model,
                    .vocab_size = flags.vocab_size > 0 ? flags.vocab_size : kOpenAiVocabulary};
}

absl::StatusOr<std::vector<bench::PlannedRequest>> MakePlan(const ServeBenchFlags& flags) {
  if (!flags.trace.empty()) {
    BATON_ASSIGN_OR_RETURN(const std::string text, ReadInputFile("--trace", flags.trace, kMaxTraceBytes));
    absl::StatusOr<std::vector<bench::PlannedRequest>> plan = bench::ParseTrace(text);
    if (!plan.ok()) return absl::InvalidArgumentError(absl::StrCat(flags.trace, ": ", plan.status().message()));
    return plan;
  }
  bench::WorkloadOptions options{
      .requests = flags.requests, .requests_per_second = flags.request_rate, .seed = flags.seed};
  BATON_ASSIGN_OR_RETURN(options.prompt_tokens, bench::ParseLengthRange(flags.prompt_tokens));
  BATON_ASSIGN_OR_RETURN(options.output_tokens, bench::ParseLengthRange(flags.output_tokens));
  return bench::PlanWorkload(options);
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int Concurrency(const ServeBenchFlags& flags) {
  if (flags.concurrency > 0) return flags.concurrency;
  return flags.request_rate > 0 || !flags.trace.empty() ? kOpenLoopConcurrency : 1;
}

// Runs the first requests of the plan, all due at once. They do not count.
absl::Status WarmUp(const ServeBenchFlags& flags, absl::Span<const bench::PlannedRequest> plan,
                    bench::LoadRunOptions options, bench::LoadClient& client) {
  std::vector<bench::PlannedRequest> first(plan.begin(), plan.begin() + std::min<size_t>(plan.size(), flags.warmup));
  for (bench::PlannedRequest& request : first) request.arrival_ns = 0;
  options.first_index = static_cast<int>(plan.size());
  bench::LoadProgress progress;
  const bench::LoadProgressLine line("warm-up", static_cast<int>(first.size()), progress, MonotonicClock());
  const std::vector<bench::RequestRecord> records = bench::RunLoad(first, options, client, MonotonicClock(), progress);
  if (records.empty() || progress.failed < static_cast<int>(records.size())) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "all ", records.size(), " requests of the warm-up failed: ", bench::CountErrors(records).front().text));
}

bench::LengthRange RangeOf(absl::Span<const bench::PlannedRequest> plan, int bench::PlannedRequest::*length) {
  const auto [least, most] = std::minmax_element(
      plan.begin(), plan.end(), [length](const auto& a, const auto& b) { return a.*length < b.*length; });
  return {(*least).*length, (*most).*length};
}

bench::LoadSetting SettingOf(const ServeBenchFlags& flags, const Connection& connection,
                             absl::Span<const bench::PlannedRequest> plan) {
  bench::LoadSetting setting{.backend = flags.backend,
                             .target = connection.target,
                             .model = connection.model,
                             .cluster = connection.cluster,
                             .date = absl::Now(),
                             .num_prompts = static_cast<int>(plan.size()),
                             .prompt_tokens = RangeOf(plan, &bench::PlannedRequest::prompt_tokens),
                             .output_tokens = RangeOf(plan, &bench::PlannedRequest::output_tokens),
                             .grammar = GrammarKindOf(flags),
                             .max_concurrency = Concurrency(flags),
                             .request_rate = flags.request_rate,
                             .trace = std::filesystem::path(flags.trace).filename(),
                             .warmup = flags.warmup,
                             .timeout_ms = flags.timeout_ms,
                             .seed = flags.seed,
                             .slo = flags.slo};
  // A range that was asked for is the same for every seed.
  if (flags.trace.empty()) {
    setting.prompt_tokens = bench::ParseLengthRange(flags.prompt_tokens).value_or(setting.prompt_tokens);
    setting.output_tokens = bench::ParseLengthRange(flags.output_tokens).value_or(setting.output_tokens);
  }
  return setting;
}

// Runs the plan to its end, or until a signal comes, whose number it leaves in `signal_number`.
std::vector<bench::RequestRecord> RunPlan(absl::Span<const bench::PlannedRequest> plan, bench::LoadRunOptions options,
                                          bench::LoadClient& client, int& signal_number) {
  absl::Notification stop;
  options.stop = &stop;
  const Interrupt interrupt([&] {
    stop.Notify();
    client.CancelAll();
  });
  bench::LoadProgress progress;
  const bench::LoadProgressLine line("bench", static_cast<int>(plan.size()), progress, MonotonicClock());
  std::vector<bench::RequestRecord> records = bench::RunLoad(plan, options, client, MonotonicClock(), progress);
  signal_number = interrupt.signal_number();
  return records;
}

void Print(const ServeBenchFlags& flags, const bench::LoadSetting& setting, const bench::LoadSummary& summary,
           absl::Span<const bench::RequestRecord> records) {
  if (flags.json) {
    std::cout << bench::LoadJson(setting, summary, records, flags.records).dump() << std::endl;
  } else {
    std::cout << bench::LoadTable(setting, summary, records) << std::flush;
  }
}

absl::Status OutcomeOf(const bench::LoadSetting& setting, const bench::LoadSummary& summary,
                       absl::Span<const bench::RequestRecord> records) {
  if (setting.is_interrupted) {
    return absl::CancelledError(absl::StrCat("interrupted after ", summary.completed + summary.failed, " of ",
                                             setting.num_prompts, " requests; the report covers these alone"));
  }
  if (summary.failed == 0) return absl::OkStatus();
  const std::vector<bench::ErrorCount> errors = bench::CountErrors(records);
  return absl::UnavailableError(absl::StrCat(summary.failed, " of ", records.size(), " requests failed, ",
                                             errors.size() == 1 ? "all" : "most",
                                             " of them with: ", errors.front().text));
}

// When a signal ended the load, its number is in `signal_number` afterwards.
absl::Status Serve(const ServeBenchFlags& flags, int& signal_number) {
  BATON_ASSIGN_OR_RETURN(const std::vector<bench::PlannedRequest> plan, MakePlan(flags));
  std::optional<OutputFile> plot;
  if (!flags.plot.empty()) {
    BATON_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open("--plot", flags.plot));
    plot.emplace(std::move(file));
  }
  BATON_ASSIGN_OR_RETURN(const Connection connection,
                         flags.backend == "grpc" ? ConnectGrpc(flags) : ConnectOpenAi(flags));
  const bench::LoadRunOptions options{
      .concurrency = Concurrency(flags), .seed = flags.seed, .vocab_size = connection.vocab_size};
  BATON_RETURN_IF_ERROR(WarmUp(flags, plan, options, *connection.client));
  bench::LoadSetting setting = SettingOf(flags, connection, plan);
  const double cpu_before = CpuSeconds();
  const std::vector<bench::RequestRecord> records = RunPlan(plan, options, *connection.client, signal_number);
  const bench::LoadSummary summary = bench::Summarize(records, flags.slo);
  setting.is_interrupted = summary.completed + summary.failed < setting.num_prompts;
  setting.generator_cores = (CpuSeconds() - cpu_before) / std::max(summary.duration_s, 1e-9);
  Print(flags, setting, summary, records);
  if (plot.has_value() && summary.completed > 0) {
    BATON_RETURN_IF_ERROR(plot->Write(bench::LatencySvg(setting, records)));
  }
  return OutcomeOf(setting, summary, records);
}

CLI::Validator Lengths() {
  return CLI::Validator(
      [](std::string& text) {
        const auto range = bench::ParseLengthRange(text);
        return range.ok() ? std::string() : std::string(range.status().message());
      },
      "N|MIN:MAX");
}

CLI::Validator Url() {
  return CLI::Validator(
      [](std::string& text) {
        const auto base = bench::ParseBaseUrl(text);
        return base.ok() ? std::string() : std::string(base.status().message());
      },
      "URL");
}

void AddWorkloadFlags(CLI::App& command, ServeBenchFlags& flags) {
  command.add_option("--requests", flags.requests)->check(CLI::Range(1, bench::kMaxRequests))->capture_default_str();
  command
      .add_option("--concurrency", flags.concurrency, "most requests in flight; 0: 1, or 256 with a rate or a trace")
      ->check(CLI::Range(0, bench::kMaxConcurrency))
      ->capture_default_str();
  CLI::Option* rate =
      command.add_option("--request-rate", flags.request_rate, "rate of Poisson arrivals per second; 0: closed loop")
          ->check(CLI::Range(0.0, 1e6))
          ->capture_default_str();
  command.add_option("--trace", flags.trace, "a file of arrival_s,prompt_tokens,output_tokens")->excludes(rate);
  command.add_option("--prompt-tokens", flags.prompt_tokens, "prompt tokens of each request, or a range to draw from")
      ->check(Lengths())
      ->capture_default_str();
  command
      .add_option("--output-tokens", flags.output_tokens,
                  "output tokens of each request; end tokens do not end it, but a grammar may")
      ->check(Lengths())
      ->capture_default_str();
  command.add_option("--warmup", flags.warmup, "requests that run first and do not count")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command.add_option("--seed", flags.seed, "seed of arrivals, lengths and prompts")->capture_default_str();
}

}  // namespace

void AddBenchServeCommand(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<ServeBenchFlags>();
  CLI::App* command = bench.add_subcommand("serve", "loads a server and measures its latencies and throughput");
  command->add_option("--backend", flags->backend, "grpc (Baton) or openai (any completions server)")
      ->check(CLI::IsMember({"grpc", "openai"}))
      ->capture_default_str();
  AddTargetFlags(*command, flags->router);
  command->add_option("--base-url", flags->base_url, "address of an openai backend")
      ->check(Url())
      ->capture_default_str();
  AddClientModelFlag(*command, flags->model);
  command
      ->add_option("--vocab-size", flags->vocab_size, "prompt ids are below this number [the model's; openai: 32000]")
      ->check(CLI::PositiveNumber);
  AddWorkloadFlags(*command, *flags);
  AddGrammarFlags(*command, flags->grammar);
  command->add_option("--slo-ttft-ms", flags->slo.ttft_ms, "objective of goodput; 0: none")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--slo-tpot-ms", flags->slo.tpot_ms, "objective of goodput; 0: none")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--timeout-ms", flags->timeout_ms, "deadline of each request; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--plot", flags->plot, "draw the latencies into this SVG file; not when no request completed");
  command->add_flag("--records", flags->records, "with --json: also the lengths and latencies of every request");
  command->add_flag("--json", flags->json);
  command->callback([flags, &exit_code] {
    int signal_number = 0;
    exit_code = Report(Serve(*flags, signal_number));
    if (signal_number != 0) EndBySignal(signal_number);
  });
}

}  // namespace baton::cli
