// How fast one thread issues the instructions that the kernels depend on, with all operands in registers.
#ifndef BATON_BENCH_MACHINE_INSTRUCTION_RATES_H_
#define BATON_BENCH_MACHINE_INSTRUCTION_RATES_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace baton::bench {

// The type of a loop's multiply-adds.
enum class Arithmetic : uint8_t { kInt8, kFp32, kBf16 };

struct InstructionLoop {
  // "vpmaddubsw+vpaddw ymm"
  std::string_view name;
  Arithmetic arithmetic;
  // Multiply-adds of one iteration.
  int64_t macs;
  void (*run)(int64_t iterations);
};

// The loops that this processor can run. Any thread may run one.
std::vector<InstructionLoop> SupportedLoops();

// Reads `streams` equal parts of [data, data + bytes) in turn, with the widest loads that the processor has. `data` is
// 64-byte aligned, `bytes` is a multiple of 256 * streams, and streams is 1 to 4.
void ReadMemory(const uint8_t* data, int64_t bytes, int streams);

}  // namespace baton::bench

#endif  // BATON_BENCH_MACHINE_INSTRUCTION_RATES_H_
