#include "bench/machine/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "bench/machine/instruction_rates.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/usable_cores.h"
#include "engine/cpu_model.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/thread_pool.h"
#include "kvtransfer/bandwidth_probe.h"

namespace baton::bench {
namespace {

using engine::kernels::AlignedBuffer;
using engine::kernels::ThreadPool;

constexpr int kMaxStreams = 4;
// Divisible into 256-byte steps of one to four streams.
constexpr int64_t kReadUnit = 12 * 256;
// The fastest loop takes about 10 ms.
constexpr int64_t kLoopIterations = 2'000'000;
constexpr int kBarriers = 10'000;
constexpr size_t kMemcpyBytes = 256u << 20;
constexpr int kMemcpyRounds = 3;

// Seconds that job(thread) takes on all threads of the pool; the best of `rounds`.
double BestSeconds(ThreadPool& pool, int rounds, absl::FunctionRef<void(int thread)> job) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const TimeNs begin = MonotonicClock().Now();
    pool.Run(job);
    best = std::min(best, static_cast<double>(MonotonicClock().Now() - begin) / kNsPerSecond);
  }
  return best;
}

std::string ArithmeticName(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kInt8:
      return "int8";
    case Arithmetic::kFp32:
      return "fp32";
    case Arithmetic::kBf16:
      return "bf16";
  }
  return "unknown";
}

std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      return std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
    }
  }
  return "unknown";
}

std::vector<std::string> InstructionSets() {
  std::vector<std::string> sets;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) sets.push_back("avx2");
  if (__builtin_cpu_supports("fma")) sets.push_back("fma");
  if (__builtin_cpu_supports("avx512f")) sets.push_back("avx512f");
  if (__builtin_cpu_supports("avx512vnni")) sets.push_back("avx512vnni");
  if (__builtin_cpu_supports("avx512bf16")) sets.push_back("avx512bf16");
  return sets;
}

void MeasureRead(ThreadPool& pool, const LimitOptions& options, MachineLimits& limits) {
  const int64_t part = options.read_bytes / pool.size() / kReadUnit * kReadUnit;
  BATON_CHECK(part > 0) << options.read_bytes;
  const AlignedBuffer buffer(static_cast<size_t>(part * pool.size()));
  // The threads that read a part touch it first: on a machine with several memory nodes that decides where it lies.
  BestSeconds(pool, 1, [&](int thread) { std::memset(buffer.data() + thread * part, 1, static_cast<size_t>(part)); });
  for (int streams = 1; streams <= kMaxStreams; ++streams) {
    const double seconds = BestSeconds(pool, options.rounds,
                                       [&](int thread) { ReadMemory(buffer.data() + thread * part, part, streams); });
    const double rate = static_cast<double>(buffer.bytes()) / seconds;
    if (rate <= limits.read_bytes_per_s) continue;
    limits.read_bytes_per_s = rate;
    limits.read_streams = streams;
  }
}

}  // namespace

MachineLimits MeasureLimits(const LimitOptions& options) {
  MachineLimits limits;
  limits.processor = ProcessorName();
  limits.cores = CountUsableCores();
  limits.threads = engine::KernelThreads(options.threads);
  limits.instruction_sets = InstructionSets();
  ThreadPool pool(limits.threads);
  MeasureRead(pool, options, limits);
  for (const InstructionLoop& loop : SupportedLoops()) {
    const double seconds = BestSeconds(pool, options.rounds, [&](int) { loop.run(kLoopIterations); });
    limits.instructions.push_back(
        {.name = std::string(loop.name),
         .arithmetic = ArithmeticName(loop.arithmetic),
         .macs_per_s = static_cast<double>(loop.macs) * kLoopIterations * pool.size() / seconds});
  }
  limits.barrier_us = 1e6 / kBarriers * BestSeconds(pool, options.rounds, [&](int) {
                        for (int i = 0; i < kBarriers; ++i) pool.Barrier();
                      });
  limits.memcpy_bytes_per_s = kvtransfer::MemcpyBytesPerSecond(kMemcpyBytes, kMemcpyRounds);
  return limits;
}

double BestMacsPerSecond(const MachineLimits& limits, const std::string& arithmetic) {
  double best = 0;
  for (const InstructionRate& rate : limits.instructions) {
    if (rate.arithmetic == arithmetic) best = std::max(best, rate.macs_per_s);
  }
  return best;
}

nlohmann::ordered_json LimitsJson(const MachineLimits& limits) {
  nlohmann::ordered_json json = {{"processor", limits.processor},
                                 {"cores", limits.cores},
                                 {"threads", limits.threads},
                                 {"instruction_sets", limits.instruction_sets},
                                 {"read_gb_per_s", limits.read_bytes_per_s / 1e9},
                                 {"read_streams", limits.read_streams},
                                 {"memcpy_gb_per_s", limits.memcpy_bytes_per_s / 1e9},
                                 {"barrier_us", limits.barrier_us},
                                 {"instructions", nlohmann::ordered_json::array()}};
  for (const InstructionRate& rate : limits.instructions) {
    json["instructions"].push_back(
        {{"name", rate.name}, {"arithmetic", rate.arithmetic}, {"gmac_per_s", rate.macs_per_s / 1e9}});
  }
  return json;
}

std::string LimitsTable(const MachineLimits& limits) {
  std::string text = absl::StrFormat("%s, %d cores, %d threads, %s\n", limits.processor, limits.cores, limits.threads,
                                     absl::StrJoin(limits.instruction_sets, " "));
  absl::StrAppendFormat(&text, "  %-34s %10.2f GB/s, %d streams a thread\n", "memory read, all threads",
                        limits.read_bytes_per_s / 1e9, limits.read_streams);
  absl::StrAppendFormat(&text, "  %-34s %10.2f GB/s\n", "memcpy, one thread", limits.memcpy_bytes_per_s / 1e9);
  for (const InstructionRate& rate : limits.instructions) {
    absl::StrAppendFormat(&text, "  %-34s %10.1f GMAC/s\n", absl::StrCat(rate.arithmetic, ", ", rate.name),
                          rate.macs_per_s / 1e9);
  }
  absl::StrAppendFormat(&text, "  %-34s %10.2f us\n", "barrier of the kernel threads", limits.barrier_us);
  return text;
}

}  // namespace baton::bench
