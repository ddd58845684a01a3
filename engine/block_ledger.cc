#include "engine/block_ledger.h"

#include <algorithm>
#include <cstddef>

namespace baton::engine {

EngineLoad LoadOf(const HoldersOfBlocks& holders) {
  const BlockPool& pool = holders.pool;
  // Promised blocks are still free or cached, but count as used.
  const int32_t free = pool.free_count() + holders.withheld;
  const int32_t promised_free = std::min(pool.promised_count(), free);
  EngineLoad load = {.total_blocks = pool.total(),
                     .free_blocks = free - promised_free,
                     .used_blocks = pool.used_count() - holders.withheld + pool.promised_count(),
                     .cached_blocks = pool.cached_count() - (pool.promised_count() - promised_free),
                     .touched_end = pool.touched_end()};
  for (const auto& sequence : holders.sequences) {
    if (sequence->runnable()) ++load.running;
    if (sequence->state == SequenceState::kPreempted) ++load.preempted;
    if (sequence->state == SequenceState::kReserved) ++load.reserved;
    if (sequence->runnable() || sequence->state == SequenceState::kReserved) {
      load.pending_prompt_tokens += std::max(sequence->prompt_length() - sequence->computed(), 0);
    }
  }
  return load;
}

int32_t CountOrphanedBlocks(const HoldersOfBlocks& holders, absl::FunctionRef<bool(SequenceId)> is_owned) {
  const BlockPool& pool = holders.pool;
  std::vector<bool> owned(static_cast<size_t>(pool.total()), false);
  int32_t owned_count = 0;
  int32_t promised = 0;
  for (const auto& sequence : holders.sequences) {
    if (!is_owned(sequence->id())) continue;
    promised += sequence->promised();
    for (const BlockId block : sequence->blocks()) {
      if (block == kNoBlock || owned[static_cast<size_t>(block)]) continue;
      owned[static_cast<size_t>(block)] = true;
      ++owned_count;
    }
  }
  return pool.used_count() - holders.withheld + pool.promised_count() - owned_count - promised;
}

std::vector<HeldBlocks> ListHeldBlocks(const HoldersOfBlocks& holders) {
  std::vector<bool> seen(static_cast<size_t>(holders.pool.total()), false);
  std::vector<HeldBlocks> held;
  held.reserve(holders.sequences.size());
  for (const auto& sequence : holders.sequences) {
    HeldBlocks& one = held.emplace_back(HeldBlocks{.sequence = sequence->id(),
                                                   .job = sequence->spec().job,
                                                   .state = sequence->state,
                                                   .blocks = sequence->promised(),
                                                   .own_blocks = sequence->promised()});
    for (const BlockId block : sequence->blocks()) {
      if (block == kNoBlock) continue;
      ++one.blocks;
      if (seen[static_cast<size_t>(block)]) continue;
      seen[static_cast<size_t>(block)] = true;
      ++one.own_blocks;
    }
  }
  return held;
}

}  // namespace baton::engine
