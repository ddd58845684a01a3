// One sequence: its tokens, its blocks, and how far its KV is computed. The engine's, the scheduler's and nobody
// else's.
//
// Of full groups it has the blocks of index 0 up to its end; of sliding groups those that the next row to run sees, and
// later ones:
//
//   TakeBlocks | full groups: all that were asked for. Sliding groups: while the prompt is to be pulled, those that are
//              | handed over; else cached ones, and a promise of as many as it will hold at once
//   prefill    | TakePromised before a chunk; Slide after it, which turns what is given back into a promise again
//   decode     | Grow before a row that begins a block, Slide after it
#ifndef BATON_ENGINE_SEQUENCE_H_
#define BATON_ENGINE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"
#include "engine/block_pool.h"
#include "engine/sequence_types.h"

namespace baton::engine {

// The table is in engine.h.
enum class SequenceState : uint8_t { kReserved, kPrefill, kDecode, kPreempted, kFinished };

class Sequence {
 public:
  // `token_limit`: prompt and outputs never exceed it. At most `chunk_tokens` rows of it run in a step. Allocates all
  // that the sequence will need.
  Sequence(SequenceId id, SequenceSpec spec, int32_t token_limit, const KvGroups& groups = {},
           int32_t chunk_tokens = kBlockTokens);

  SequenceId id() const { return id_; }
  const SequenceSpec& spec() const { return spec_; }
  int32_t prompt_length() const { return static_cast<int32_t>(spec_.prompt.size()); }
  // Prompt and outputs.
  absl::Span<const int32_t> tokens() const { return tokens_; }
  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
  absl::Span<const int32_t> outputs() const { return tokens().subspan(spec_.prompt.size()); }
  int32_t token_limit() const { return token_limit_; }
  const KvGroups& groups() const { return groups_; }
  // Block of index i in group g at [g * block_stride() + i]; kNoBlock where it has none.
  absl::Span<const BlockId> blocks() const { return blocks_; }
  int32_t block_stride() const { return block_stride_; }
  BlockId block(int32_t group, int32_t index) const { return blocks_[At(group, index)]; }
  // The blocks of the prompt that are handed over, in the order of KvGroups; kNoBlock for what is not computed yet.
  // Fewer while the sequence is preempted.
  std::vector<BlockId> HandedOver() const;
  // Of sliding groups, to come.
  int32_t promised() const { return promised_; }
  // KV of positions [0, computed) is in the blocks.
  int32_t computed() const { return computed_; }
  int32_t cached_tokens() const { return cached_tokens_; }

  bool runnable() const { return state == SequenceState::kPrefill || state == SequenceState::kDecode; }
  // A sequence whose blocks a peer reads must keep them.
  bool preemptible() const { return runnable() && !spec_.prefill_only; }
  // Its prompt's KV comes from another engine, and is still to come.
  bool pulls() const { return spec_.pulls_prompt && state == SequenceState::kReserved; }
  // Of each full group, for every row that is still to run before the next-but-one token: all tokens and one more, as
  // far as the limit lets that row run. What a preempted sequence must get before it comes back.
  int32_t blocks_to_resume() const;
  // Of sliding groups, the index of the first block that it needs once `cached` whole blocks of tokens are there.
  int32_t FirstNeeded(int32_t cached) const;
  // Blocks of one sliding group that it holds at once until `end` blocks of tokens are computed, of which `cached` are
  // there.
  int32_t SlidingBlocks(int32_t cached, int32_t end) const;

  // Names of group 0's first `count` blocks, which must be full of tokens.
  absl::Span<const Digest128> BlockNames(int32_t count);

  void Append(int32_t token);
  void SetBlock(int32_t group, int32_t index, BlockId block);
  // The first index of which it ever had blocks of sliding groups.
  void set_sliding_begin(int32_t index) { sliding_begin_ = index; }
  void Promise(int32_t count, BlockPool& pool);
  // The blocks of sliding groups for rows up to `end`.
  void TakePromised(int32_t end, BlockPool& pool);
  // What is left: the prompt is computed, or nothing more will be.
  void ReturnPromised(BlockPool& pool);
  // Whatever blocks the next row lacks. False when the pool has too few: what was had stays.
  bool Grow(BlockPool& pool);
  // Gives back what neither the next row nor a later one sees.
  void Slide(BlockPool& pool);
  void set_computed(int32_t computed) { computed_ = computed; }
  void set_cached_tokens(int32_t tokens) { cached_tokens_ = tokens; }

  // Names the blocks whose last row is computed, so that others find them.
  void PublishFullBlocks(BlockPool& pool);
  // Gives all blocks back, the last one first: a chain's end is evicted before its beginning.
  void ReleaseBlocks(BlockPool& pool);

  SequenceState state = SequenceState::kReserved;
  // Whether the unused rows of the prompt's last block were zeroed since the blocks were taken.
  bool tail_is_zero = false;

 private:
  size_t At(int32_t group, int32_t index) const { return static_cast<size_t>(group * block_stride_ + index); }

  const SequenceId id_;
  const SequenceSpec spec_;
  const int32_t token_limit_;
  const KvGroups groups_;
  const int32_t chunk_tokens_;
  const int32_t block_stride_;
  std::vector<int32_t> tokens_;
  std::vector<BlockId> blocks_;
  // After the last index of which it has a block, and before which it has none of sliding groups.
  int32_t block_end_ = 0;
  int32_t sliding_begin_ = 0;
  int32_t promised_ = 0;
  // Of group 0's first names_.size() blocks.
  std::vector<Digest128> names_;
  int32_t computed_ = 0;
  int32_t cached_tokens_ = 0;
  int32_t published_blocks_ = 0;
};

// What the prefix cache has of a sequence, counted before anything is taken.
struct PrefixHits {
  // Blocks from the beginning whose tokens need not be computed: those of full groups are all there, those of sliding
  // groups as far as they are needed.
  int32_t blocks = 0;
  // Of full groups, the ones that some sequence uses: taking them leaves BlockPool::available as it is.
  int32_t used_blocks = 0;
};

// Whole blocks only, and at most length - 1 tokens: at least one row must run to give logits.
PrefixHits FindPrefix(Sequence& sequence, const BlockPool& pool);

// What TakeBlocks takes from BlockPool::available.
int32_t BlocksToTake(const Sequence& sequence, const PrefixHits& hits, int32_t block_count);

// Takes the hits and fresh blocks up to index `block_count`; sets computed. The pool must have them.
void TakeBlocks(Sequence& sequence, const PrefixHits& hits, int32_t block_count, BlockPool& pool);

}  // namespace baton::engine

#endif  // BATON_ENGINE_SEQUENCE_H_
