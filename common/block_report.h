// What a worker says of the blocks of its KV pool: who holds how many, and for what. The router's ledger compares it
// with its open calls.
#ifndef BATON_COMMON_BLOCK_REPORT_H_
#define BATON_COMMON_BLOCK_REPORT_H_

#include <array>
#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace baton {

// What an attempt holds its blocks for.
enum class BlockHold : uint8_t {
  kPulling,      // they are the destination of a hand-off
  kQuarantined,  // likewise, but the call is over and a read may still write them
  kPrefilling,   // its prompt is computed here, or computed again after a preemption
  kDecoding,     // its tokens are computed here
  kPreempted,    // it gave its blocks up for an older one, and waits for others
  kForReader,    // a reader may fetch them, until it releases them or until its lease and the grace are over
  kEnded,        // nothing more is computed for it: such blocks are given back at once
  kUnowned,      // no phase of the worker knows the sequence, so nobody will give them back
};
inline constexpr std::array kBlockHolds = {BlockHold::kPulling,  BlockHold::kQuarantined, BlockHold::kPrefilling,
                                           BlockHold::kDecoding, BlockHold::kPreempted,   BlockHold::kForReader,
                                           BlockHold::kEnded,    BlockHold::kUnowned};

struct BlockHolder {
  JobKey key;
  BlockHold hold = BlockHold::kUnowned;
  // All that it refers to, with those that were promised to it.
  int32_t blocks = 0;
  // The blocks among them to which no older holder refers. So their sum over all holders counts each block once,
  // however many prompts share it.
  int32_t own_blocks = 0;
  // How long the worker has had the attempt; 0 for an unowned one.
  int64_t held_ms = 0;

  friend bool operator==(const BlockHolder&, const BlockHolder&) = default;
};

// What the blocks of a pool were at one moment between two rounds of the engine's loop.
struct BlockReport {
  int32_t free_blocks = 0;
  // Blocks that the prefix cache alone holds.
  int32_t cached_blocks = 0;
  // Blocks of calls of other routers, each counted once: its holders are not among those below.
  int32_t other_routers_blocks = 0;
  // Oldest first, at most kMaxSequences.
  std::vector<BlockHolder> holders;

  friend bool operator==(const BlockReport&, const BlockReport&) = default;
};

}  // namespace baton

#endif  // BATON_COMMON_BLOCK_REPORT_H_
