// Bandwidth of KV hand-offs between two processes, beside this machine's memcpy.
#ifndef BATON_BENCH_ENGINE_HANDOFF_BENCH_H_
#define BATON_BENCH_ENGINE_HANDOFF_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine/figure.h"

namespace baton::bench {

struct HandoffOptions {
  // "shm", "tcp", "grpc".
  std::vector<std::string> kinds = {"shm", "tcp", "grpc"};
  // 94 blocks of SmolLM2 hold a prompt of 1,500 tokens.
  int blocks = 94;
  uint64_t block_bytes = 360u << 10;
  int rounds = 10;
};

// Two figures for each kind. The first is the rate of reading `blocks` blocks, no two of them neighbours, from another
// process in GB/s; its limit is the memcpy of the same rounds. The second is the rate of digesting them. Memory is
// touched beforehand. Forks the process that owns the blocks, so call it before the first thread starts. UNAVAILABLE
// when a transport does not work here.
absl::StatusOr<std::vector<Figure>> BenchHandoff(const HandoffOptions& options);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_HANDOFF_BENCH_H_
