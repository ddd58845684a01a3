// How fast this process reads from a peer, and how fast it copies its own memory: what placement needs to know whether
// a prompt's KV is worth moving.
#ifndef BATON_KVTRANSFER_BANDWIDTH_PROBE_H_
#define BATON_KVTRANSFER_BANDWIDTH_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

struct ProbeOptions {
  // At most kMaxProbeBytes.
  size_t bytes = 16u << 20;
  // The result is the median of these. One more round goes first and is not counted: it touches the memory.
  int rounds = 3;
  // Time for all rounds together. When it is over, the probe returns DEADLINE_EXCEEDED; its read may still be in flight
  // then, until Disconnect ends it.
  int64_t timeout_ms = 1'000;
};

struct ProbeResult {
  double bytes_per_second = 0;
  // Bytes of one round.
  size_t bytes = 0;
};

// Reads between the tails of the two regions, which hold no KV. Blocks and polls: called by the transfer thread, best
// right after Connect. Completions of other reads meanwhile are appended to `others`.
absl::StatusOr<ProbeResult> ProbeBandwidth(Transport& transport, PeerId peer, const ProbeOptions& options,
                                           std::vector<ReadCompletion>& others);

// memcpy between two buffers of `bytes`, touched beforehand; the median of `rounds`. Takes 2 x bytes of memory.
double MemcpyBytesPerSecond(size_t bytes, int rounds);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_BANDWIDTH_PROBE_H_
