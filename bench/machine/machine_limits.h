// What this machine can do at most. `baton bench engine` shows every figure as a share of it.
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
  // Rate of all threads together.
  double macs_per_s = 0;
};

struct MachineLimits {
  std::string processor;
  // Cores that this process may use: a container or `taskset` may leave it fewer than the machine has.
  int cores = 0;
  // How many threads measured.
  int threads = 0;
  std::vector<std::string> instruction_sets;
  // Rate at which all threads together read a buffer larger than the caches, with the number of streams per thread that
  // is fastest.
  double read_bytes_per_s = 0;
  int read_streams = 0;
  // Rate at which one thread copies.
  double memcpy_bytes_per_s = 0;
  std::vector<InstructionRate> instructions;
  // Time of a barrier of the kernel threads' pool at which all threads arrive at once.
  double barrier_us = 0;
};

struct LimitOptions {
  // As many threads as the kernels have; 0: one per core.
  int threads = 0;
  // Size of the buffer that all threads read together.
  int64_t read_bytes = 512ll << 20;
  // Each measurement is the best of this many.
  int rounds = 5;
};

MachineLimits MeasureLimits(const LimitOptions& options);

// The rate of the fastest instruction of an arithmetic; 0 when the machine has none.
double BestMacsPerSecond(const MachineLimits& limits, const std::string& arithmetic);

nlohmann::ordered_json LimitsJson(const MachineLimits& limits);
std::string LimitsTable(const MachineLimits& limits);

}  // namespace baton::bench

#endif  // BATON_BENCH_MACHINE_MACHINE_LIMITS_H_
