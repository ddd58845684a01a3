// What this machine can do at most: the yardstick of every figure of `baton bench engine`.
#ifndef BATON_BENCH_MACHINE_MACHINE_LIMITS_H_
#define BATON_BENCH_MACHINE_MACHINE_LIMITS_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace baton::bench {

struct InstructionRate {
  // "vpmaddubsw+vpaddw ymm"
  std::string name;
  // "int8", "fp32" or "bf16".
  std::string arithmetic;
  // All threads together.
  double macs_per_s = 0;
};

struct MachineLimits {
  std::string processor;
  int cores = 0;
  // That measured.
  int threads = 0;
  std::vector<std::string> instruction_sets;
  // By all threads, of a buffer larger than the caches; the best number of streams a thread.
  double read_bytes_per_s = 0;
  int read_streams = 0;
  // Bytes copied, by one thread.
  double memcpy_bytes_per_s = 0;
  std::vector<InstructionRate> instructions;
  // Of the kernel threads' pool, all threads arriving at once.
  double barrier_us = 0;
};

struct LimitOptions {
  // As the kernels have; 0: one a core.
  int threads = 0;
  // Read by all threads together.
  int64_t read_bytes = 512ll << 20;
  // Each measurement is the best of so many.
  int rounds = 5;
};

MachineLimits MeasureLimits(const LimitOptions& options);

// The fastest instruction of an arithmetic; 0 when the machine has none.
double BestMacsPerSecond(const MachineLimits& limits, const std::string& arithmetic);

nlohmann::ordered_json LimitsJson(const MachineLimits& limits);
std::string LimitsTable(const MachineLimits& limits);

}  // namespace baton::bench

#endif  // BATON_BENCH_MACHINE_MACHINE_LIMITS_H_
