#include "cli/bench_router_command.h"

#include <signal.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "bench/router/router_bench.h"
#include "cli/child_process.h"
#include "cli/model_loading.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/clock.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

constexpr int64_t kReadyTimeoutMs = 60'000;
constexpr absl::Duration kPollInterval = absl::Milliseconds(10);
constexpr int64_t kStopTimeoutMs = 10'000;
// A stub worker heartbeats with its steps, and may not be silent for longer than the router is told.
constexpr double kLeastTokensPerSecond = 0.5;
constexpr const char* kWorkerSilenceMs = "10000";

struct RouterBenchFlags {
  std::string model;
  int streams = 1000;
  int streams_per_worker = 16;
  double tokens_per_second = 1;
  int seconds = 10;
  bool json = false;
};

void Print(const RouterBenchFlags& flags, const bench::RouterFigures& figures) {
  if (flags.json) {
    const nlohmann::ordered_json json = {{"streams", flags.streams},
                                         {"streams_per_worker", flags.streams_per_worker},
                                         {"tokens_per_second", flags.tokens_per_second},
                                         {"tokens", figures.tokens},
                                         {"cpu_us_per_token", figures.cpu_us_per_token},
                                         {"cpu_cores", figures.cpu_cores},
                                         {"kib_per_stream", figures.kib_per_stream},
                                         {"median_added_ms", figures.median_ms},
                                         {"p99_added_ms", figures.p99_ms}};
    std::cout << json.dump() << std::endl;
    return;
  }
  std::cout << absl::StrFormat(
      "%d streams of %.3g tokens/s each, %d a worker: %d tokens\n"
      "  CPU of the router      %8.1f us a token, %.2f cores\n"
      "  memory of the router   %8.1f KiB a stream\n"
      "  added to a token       %8.2f ms in the median, %.2f ms at P99 (worker's send to client's receipt)\n",
      flags.streams, flags.tokens_per_second, flags.streams_per_worker, figures.tokens, figures.cpu_us_per_token,
      figures.cpu_cores, figures.kib_per_stream, figures.median_ms, figures.p99_ms);
}

absl::StatusOr<ReadyAddresses> AwaitReady(ChildProcess& router) {
  const TimeNs deadline = After(MonotonicClock().Now(), kReadyTimeoutMs);
  while (!router.Poll().has_value() && MonotonicClock().Now() < deadline) {
    if (std::optional<ReadyAddresses> ready = router.PollReady()) return *std::move(ready);
    absl::SleepFor(kPollInterval);
  }
  return absl::UnavailableError("the router did not become ready: see its error above");
}

absl::Status Run(const RouterBenchFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const LoadedModelFile loaded, LoadModelFile(flags.model));
  BATON_ASSIGN_OR_RETURN(ChildProcess router,
                         ChildProcess::Start({"router", "--model", flags.model, "--grpc-port", "0", "--cluster-port",
                                              "0", "--worker-silence-ms", kWorkerSilenceMs, "--log-level", "error"}));
  BATON_ASSIGN_OR_RETURN(const ReadyAddresses ready, AwaitReady(router));
  BATON_ASSIGN_OR_RETURN(const bench::RouterFigures figures,
                         bench::MeasureRouter({.router_pid = router.pid(),
                                               .target = ready.grpc,
                                               .cluster_target = ready.cluster,
                                               .model = loaded.name,
                                               .streams = flags.streams,
                                               .streams_per_worker = flags.streams_per_worker,
                                               .tokens_per_second = flags.tokens_per_second,
                                               .seconds = flags.seconds}));
  router.Signal(SIGTERM);
  router.WaitExit(kStopTimeoutMs);
  Print(flags, figures);
  return absl::OkStatus();
}

}  // namespace

void AddBenchRouterCommand(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<RouterBenchFlags>();
  CLI::App* command = bench.add_subcommand("router", "loads a router of its own with streams of stub workers");
  AddModelFlag(*command, flags->model);
  command->add_option("--streams", flags->streams, "streams at once")
      ->check(CLI::Range(1, 20'000))
      ->capture_default_str();
  command->add_option("--streams-per-worker", flags->streams_per_worker, "streams that one stub worker steps at once")
      ->check(CLI::Range(1, kMaxSequences))
      ->capture_default_str();
  command->add_option("--tokens-per-second", flags->tokens_per_second, "of each stream")
      ->check(CLI::Range(kLeastTokensPerSecond, 1000.0))
      ->capture_default_str();
  command->add_option("--seconds", flags->seconds, "how long to measure")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_flag("--json", flags->json);
  command->callback([flags, &exit_code] { exit_code = Report(Run(*flags)); });
}

}  // namespace baton::cli
