// One sequence: its tokens, its blocks, and how far its KV is computed. Only the engine and the scheduler use it.
//
// In full groups a sequence has all blocks from index 0 up to its end. In sliding groups it has the blocks that the
// next row sees, and later ones:
//
//   TakeBlocks | full groups: all blocks that were asked for. Sliding groups: the blocks that are handed over, if the
//              | prompt is to be pulled; otherwise cached ones, and a promise of as many as it will hold at once
//   prefill    | TakePromised before a chunk; Slide after it, which turns the blocks given back into a promise again
//   decode     | Grow before a row that begins a block, Slide after it
#ifndef BATON_ENGINE_SEQUENCE_H_
#define BATON_ENGINE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"
#include "engine/block_pool.h"
#include "engine/prefix_hash.h"
#include "engine/sequence_types.h"
#include "engine/token_constraint.h"

namespace baton::engine {

class Sequence {
 public:
  // Prompt and outputs never exceed `token_limit`. At most `chunk_tokens` rows of the sequence run in a step. Allocates
  // everything that the sequence will need.
  Sequence(SequenceId id, SequenceSpec spec, int32_t token_limit, const PrefixNames& names, const KvGroups& groups = {},
           int32_t chunk_tokens = kBlockTokens);

  SequenceId id() const { return id_; }
  const SequenceSpec& spec() const { return spec_; }
  // What another engine hands over, or this one prefills: with the outputs that the sequence began with.
  int32_t prompt_length() const { return static_cast<int32_t>(spec_.prompt.size()); }
  // Prompt and outputs.
  absl::Span<const int32_t> tokens() const { return tokens_; }
  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
  absl::Span<const int32_t> outputs() const { return tokens().subspan(client_prompt().size()); }
  // Without the outputs that the sequence began with.
  absl::Span<const int32_t> client_prompt() const {
    return absl::MakeConstSpan(spec_.prompt).first(spec_.prompt.size() - static_cast<size_t>(spec_.emitted));
  }
  int32_t token_limit() const { return token_limit_; }
  const KvGroups& groups() const { return groups_; }
  // [g * block_stride() + i] is the block of index i in group g, or kNoBlock where the sequence has none.
  absl::Span<const BlockId> blocks() const { return blocks_; }
  int32_t block_stride() const { return block_stride_; }
  BlockId block(int32_t group, int32_t index) const { return blocks_[At(group, index)]; }
  // The blocks that are handed over of a prompt of its first `tokens` tokens, in the order of KvGroups; kNoBlock for
  // what is not computed yet. Fewer while the sequence is preempted.
  std::vector<BlockId> HandedOver(int32_t tokens) const;
  // Promised blocks of sliding groups that are not taken yet.
  int32_t promised() const { return promised_; }
  // KV of positions [0, computed) is in the blocks.
  int32_t computed() const { return computed_; }
  // The row of its last token is in a step in flight, which chooses the next one. Only while it is runnable.
  bool awaits_token() const { return computed_ == length(); }
  int32_t cached_tokens() const { return cached_tokens_; }

  // Rows [0, scored) have given what is asked of them: the log-probability of the token behind each, or its share of
  // the prompt's embedding. A row whose KV is cached gives none, so no such row is taken from the cache before.
  int32_t scored() const { return scored_; }
  // It gives an embedding of its prompt.
  bool pools() const { return spec_.sampling.pooling != Pooling::kNone; }
  // Some rows have it still to give.
  bool scores() const { return scored_ < score_end_; }
  // The end of the rows that have it to give, of those before `end`.
  int32_t ScoreEnd(int32_t end) const { return std::min(end, score_end_); }
  void set_scored(int32_t scored) { scored_ = scored; }
  // The embedding of its prompt, once all rows have given their share.
  std::vector<float> Embedding() const;
  // Most blocks of its beginning that the prefix cache may give it: at least one row must run to give logits.
  int32_t most_cached_blocks() const { return (scores() ? scored_ : length() - 1) / kBlockTokens; }

  bool runnable() const { return state == SequenceState::kPrefill || state == SequenceState::kDecode; }
  // It is runnable, and has no row until it is known which tokens may come next.
  bool waits() const { return constraint != nullptr && !constraint->IsReady(); }
  // It has given fewer outputs here than it must give alone.
  bool runs_alone() const { return length() - prompt_length() < spec_.alone_outputs; }
  // A sequence whose blocks a peer reads must keep them.
  bool preemptible() const { return runnable() && !spec_.prefill_only; }
  // The prompt's KV will come from another engine and has not come yet.
  bool pulls() const { return spec_.pulls_prompt && state == SequenceState::kReserved; }
  // Blocks in each full group that a preempted sequence must get before it comes back: enough for all its tokens and
  // one more, as far as the limit lets that one's row run.
  int32_t blocks_to_resume() const;
  // Index of the first block that it needs in sliding groups when `cached` whole blocks of tokens are cached.
  int32_t FirstNeeded(int32_t cached) const;
  // Most blocks of one sliding group that it holds at once until `end` blocks of tokens are computed, when the first
  // `cached` of them are there already.
  int32_t SlidingBlocks(int32_t cached, int32_t end) const;

  // Names of group 0's first `count` blocks, which must be full of tokens. They have no mark.
  absl::Span<const Digest128> BlockNames(int32_t count);
  // The marks of KV that the sequence may use: zero, and those of the first origin, the first two and so on. Its own
  // blocks have the last one.
  absl::Span<const Digest128> marks() const { return marks_; }

  void Append(int32_t token);
  void SetBlock(int32_t group, int32_t index, BlockId block);
  // The caller takes over the reference to the block, which the sequence has.
  BlockId TakeOut(int32_t group, int32_t index);
  // The lowest index at which it has had blocks of sliding groups.
  void set_sliding_begin(int32_t index) { sliding_begin_ = index; }
  void Promise(int32_t count, BlockPool& pool);
  // Takes the promised blocks of sliding groups for rows up to `end`.
  void TakePromised(int32_t end, BlockPool& pool);
  // Returns the rest of the promise: the prompt is computed, or no more of it will be.
  void ReturnPromised(BlockPool& pool);
  // Takes the blocks that the next row lacks. False when the pool has too few; the sequence keeps what it got.
  bool Grow(BlockPool& pool);
  // Gives back the blocks that neither the next row nor a later one sees.
  void Slide(BlockPool& pool);
  void set_computed(int32_t computed) { computed_ = computed; }
  void set_cached_tokens(int32_t tokens) { cached_tokens_ = tokens; }

  // Names the blocks whose last row is computed, so that others find them.
  void PublishFullBlocks(BlockPool& pool);
  // Gives all blocks back, the last one first: a chain's end is evicted before its beginning.
  void ReleaseBlocks(BlockPool& pool);

  SequenceState state = SequenceState::kReserved;
  // Which output of the step in flight is its next token, while it awaits one.
  int32_t next_output = -1;
  // How often it gave its blocks up for an older one.
  int32_t preemptions = 0;
  // Whether the unused rows of the prompt's last block were zeroed since the blocks were taken.
  bool tail_is_zero = false;
  // What its outputs may be; null: anything. It has accepted all outputs.
  std::unique_ptr<TokenConstraint> constraint;
  // [hidden size]: the sum of the rows that have given their share of the embedding.
  std::vector<double> pooled;

 private:
  size_t At(int32_t group, int32_t index) const { return static_cast<size_t>(group * block_stride_ + index); }

  const SequenceId id_;
  const SequenceSpec spec_;
  const int32_t token_limit_;
  const PrefixNames prefix_names_;
  const KvGroups groups_;
  const int32_t chunk_tokens_;
  const int32_t block_stride_;
  std::vector<int32_t> tokens_;
  std::vector<BlockId> blocks_;
  // It has no block from index block_end_ on, and no block of a sliding group before sliding_begin_.
  int32_t block_end_ = 0;
  int32_t sliding_begin_ = 0;
  int32_t promised_ = 0;
  std::vector<Digest128> marks_;
  // Names of group 0's first names_.size() blocks.
  std::vector<Digest128> names_;
  int32_t computed_ = 0;
  int32_t cached_tokens_ = 0;
  int32_t published_blocks_ = 0;
  const int32_t score_end_;
  int32_t scored_ = 0;
};

// How much of a sequence the prefix cache holds, counted before anything is taken.
struct PrefixHits {
  // Blocks from the beginning whose tokens need not be computed. The cache has all of their blocks in full groups, and
  // in sliding groups those that are still needed.
  int32_t blocks = 0;
  // Hits in full groups that some sequence uses already: taking them does not change BlockPool::available.
  int32_t used_blocks = 0;
};

// Finds whole blocks only, at most most_cached_blocks().
PrefixHits FindPrefix(Sequence& sequence, const BlockPool& pool);

// By how much TakeBlocks lowers BlockPool::available.
int32_t BlocksToTake(const Sequence& sequence, const PrefixHits& hits, int32_t block_count);

// Takes the hits and fresh blocks up to index `block_count`; sets computed. The pool must have them.
void TakeBlocks(Sequence& sequence, const PrefixHits& hits, int32_t block_count, BlockPool& pool);

}  // namespace baton::engine

#endif  // BATON_ENGINE_SEQUENCE_H_
