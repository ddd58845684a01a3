#include "bench/router/router_bench.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/load/summary.h"
#include "bench/router/paced_streams.h"
#include "bench/router/stub_workers.h"
#include "bench/router/token_clock.h"
#include "common/clock.h"
#include "common/status.h"

namespace baton::bench {
namespace {

// Streams and memory settle before anything is measured.
constexpr absl::Duration kSettleTime = absl::Seconds(2);

// Time on a core of all the process's threads (proc(5), schedstat).
int64_t BusyNs(pid_t pid) {
  int64_t total_ns = 0;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), gone)) {
    int64_t busy_ns = 0;
    if (std::ifstream(thread.path() / "schedstat") >> busy_ns) total_ns += busy_ns;
  }
  return total_ns;
}

int64_t ResidentKib(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "VmRSS:")) return std::atoll(line.c_str() + 6);
  }
  return 0;
}

}  // namespace

absl::StatusOr<RouterFigures> MeasureRouter(const RouterBenchOptions& options) {
  TokenClock token_clock(options.streams);
  StubWorkers workers({.cluster_target = options.cluster_target,
                       .model = options.model,
                       .workers = (options.streams + options.streams_per_worker - 1) / options.streams_per_worker,
                       .streams_per_worker = options.streams_per_worker,
                       .step_ns = static_cast<int64_t>(kNsPerSecond / options.tokens_per_second)},
                      token_clock);
  BATON_RETURN_IF_ERROR(workers.Start());
  const int64_t idle_kib = ResidentKib(options.router_pid);
  PacedStreams streams({.target = options.target}, token_clock);
  BATON_RETURN_IF_ERROR(streams.Start());
  absl::SleepFor(kSettleTime);

  const int64_t tokens_before = streams.tokens();
  const int64_t busy_before_ns = BusyNs(options.router_pid);
  const TimeNs begin = MonotonicClock().Now();
  streams.SetRecording(true);
  absl::SleepFor(absl::Seconds(options.seconds));
  streams.SetRecording(false);
  const int64_t busy_ns = BusyNs(options.router_pid) - busy_before_ns;
  const int64_t elapsed_ns = MonotonicClock().Now() - begin;
  RouterFigures figures;
  figures.tokens = streams.tokens() - tokens_before;
  if (figures.tokens == 0) return absl::UnavailableError("no token came: did the router give its workers up?");
  figures.cpu_us_per_token = static_cast<double>(busy_ns) / 1e3 / static_cast<double>(figures.tokens);
  figures.cpu_cores = static_cast<double>(busy_ns) / static_cast<double>(elapsed_ns);
  figures.kib_per_stream =
      static_cast<double>(ResidentKib(options.router_pid) - idle_kib) / static_cast<double>(options.streams);
  streams.Stop();
  std::vector<double> latencies_ms = streams.LatenciesMs();
  std::sort(latencies_ms.begin(), latencies_ms.end());
  figures.median_ms = Percentile(latencies_ms, 50);
  figures.p99_ms = Percentile(latencies_ms, 99);
  return figures;
}

}  // namespace baton::bench
