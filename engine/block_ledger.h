// What the sequences of an engine hold of its block pool, added up: for load reports, and to find blocks that nobody
// will ever give back.
//
// Blocks that a step in flight withholds from the pool (StepQueue) belong to no sequence and are as good as free.
#ifndef BATON_ENGINE_BLOCK_LEDGER_H_
#define BATON_ENGINE_BLOCK_LEDGER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/block_pool.h"
#include "engine/sequence.h"
#include "engine/sequence_types.h"

namespace baton::engine {

struct HoldersOfBlocks {
  // Oldest first.
  absl::Span<const std::unique_ptr<Sequence>> sequences;
  const BlockPool& pool;
  int32_t withheld = 0;
};

EngineLoad LoadOf(const HoldersOfBlocks& holders);

// As Engine::OrphanedBlocks and Engine::Held.
int32_t CountOrphanedBlocks(const HoldersOfBlocks& holders, absl::FunctionRef<bool(SequenceId)> is_owned);
std::vector<HeldBlocks> ListHeldBlocks(const HoldersOfBlocks& holders);

}  // namespace baton::engine

#endif  // BATON_ENGINE_BLOCK_LEDGER_H_
