// One sequence: its tokens, its blocks, and how far its KV is computed. The engine's, the scheduler's and nobody
// else's.
#ifndef BATON_ENGINE_SEQUENCE_H_
#define BATON_ENGINE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"
#include "engine/block_pool.h"
#include "engine/engine.h"

namespace baton::engine {

// The table is in engine.h.
enum class SequenceState : uint8_t { kReserved, kPrefill, kDecode, kPreempted, kFinished };

class Sequence {
 public:
  // `token_limit`: prompt and outputs never exceed it. Allocates all that the sequence will need.
  Sequence(SequenceId id, SequenceSpec spec, int32_t token_limit);

  SequenceId id() const { return id_; }
  const SequenceSpec& spec() const { return spec_; }
  int32_t prompt_length() const { return static_cast<int32_t>(spec_.prompt.size()); }
  // Prompt and outputs.
  absl::Span<const int32_t> tokens() const { return tokens_; }
  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
  absl::Span<const int32_t> outputs() const { return tokens().subspan(spec_.prompt.size()); }
  int32_t token_limit() const { return token_limit_; }
  absl::Span<const BlockId> blocks() const { return blocks_; }
  // Fewer than the prompt has while the sequence is preempted.
  absl::Span<const BlockId> prompt_blocks() const {
    return blocks().first(std::min(blocks_.size(), static_cast<size_t>(BlocksForTokens(prompt_length()))));
  }
  int32_t block_count() const { return static_cast<int32_t>(blocks_.size()); }
  // KV of positions [0, computed) is in the blocks.
  int32_t computed() const { return computed_; }
  int32_t cached_tokens() const { return cached_tokens_; }

  bool runnable() const { return state == SequenceState::kPrefill || state == SequenceState::kDecode; }
  // A sequence whose blocks a peer reads must keep them.
  bool preemptible() const { return runnable() && !spec_.prefill_only; }
  // Blocks for every row that is still to run before the next-but-one token: all tokens and one more, as far as the
  // limit lets that row run. What a preempted sequence must get before it comes back.
  int32_t blocks_to_resume() const;

  // Names of its first `count` blocks, which must be full of tokens.
  absl::Span<const Digest128> BlockNames(int32_t count);

  void Append(int32_t token);
  void AddBlock(BlockId block) { blocks_.push_back(block); }
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
  const SequenceId id_;
  const SequenceSpec spec_;
  const int32_t token_limit_;
  std::vector<int32_t> tokens_;
  std::vector<BlockId> blocks_;
  // Of the first names_.size() blocks.
  std::vector<Digest128> names_;
  int32_t computed_ = 0;
  int32_t cached_tokens_ = 0;
  int32_t published_blocks_ = 0;
};

// What the prefix cache has of a sequence, counted before anything is taken.
struct PrefixHits {
  // Blocks from the beginning that are there.
  int32_t blocks = 0;
  // Of these, the ones that some sequence uses: taking them leaves BlockPool::available as it is.
  int32_t used_blocks = 0;
};

// Whole blocks only, and at most length - 1 tokens: at least one row must run to give logits.
PrefixHits FindPrefix(Sequence& sequence, const BlockPool& pool);

// Takes the hits and fresh blocks up to `block_count`; sets computed. The pool must have them:
// block_count - hits.used_blocks <= available().
void TakeBlocks(Sequence& sequence, const PrefixHits& hits, int32_t block_count, BlockPool& pool);

}  // namespace baton::engine

#endif  // BATON_ENGINE_SEQUENCE_H_
