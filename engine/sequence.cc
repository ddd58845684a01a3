#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace baton::engine {
namespace {

// What `look` says of the block's name with the first of the sequence's marks with which it finds a block. The blocks
// that came the whole way are the most.
template <typename Look>
BlockId LookWithMarks(const Sequence& sequence, const Digest128& name, int32_t group, const Look& look) {
  const absl::Span<const Digest128> marks = sequence.marks();
  for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark) {
    const BlockId block = look(NameInGroup(MarkedName(name, *mark), group));
    if (block != kNoBlock) return block;
  }
  return kNoBlock;
}

BlockId FindBlock(const Sequence& sequence, const Digest128& name, int32_t group, const BlockPool& pool) {
  return LookWithMarks(sequence, name, group, [&pool](const Digest128& marked) { return pool.Find(marked); });
}

BlockId AcquireBlock(const Sequence& sequence, const Digest128& name, int32_t group, BlockPool& pool) {
  return LookWithMarks(sequence, name, group, [&pool](const Digest128& marked) { return pool.Acquire(marked); });
}

bool HasSlidingBlocks(const Sequence& sequence, const Digest128& name, const BlockPool& pool) {
  const KvGroups& groups = sequence.groups();
  for (int32_t group = groups.full; group < groups.count(); ++group) {
    if (FindBlock(sequence, name, group, pool) == kNoBlock) return false;
  }
  return true;
}

// What a prompt that has outputs already gives went with the first of them, and that of a prompt that is pulled comes
// from where it is computed.
int32_t RowsToScore(const SequenceSpec& spec) {
  if (spec.emitted > 0 || spec.pulls_prompt) return 0;
  const int32_t rows = static_cast<int32_t>(spec.prompt.size());
  if (spec.sampling.pooling == Pooling::kMean) return rows;
  return spec.sampling.prompt_logprobs < 0 ? 0 : rows - 1;
}

}  // namespace

Sequence::Sequence(SequenceId id, SequenceSpec spec, int32_t token_limit, const PrefixNames& names,
                   const KvGroups& groups, int32_t chunk_tokens)
    : id_(id),
      spec_(std::move(spec)),
      token_limit_(token_limit),
      prefix_names_(names),
      groups_(groups),
      chunk_tokens_(chunk_tokens),
      block_stride_(BlocksForTokens(token_limit)),
      marks_(1),
      score_end_(RowsToScore(spec_)) {
  tokens_.reserve(static_cast<size_t>(token_limit));
  tokens_.assign(spec_.prompt.begin(), spec_.prompt.end());
  blocks_.assign(At(groups.count(), 0), kNoBlock);
  names_.reserve(static_cast<size_t>(block_stride_));
  for (const KvOrigin& origin : spec_.origins) marks_.push_back(prefix_names_.Mark(marks_.back(), origin));
}

std::vector<float> Sequence::Embedding() const {
  const double rows = spec_.sampling.pooling == Pooling::kMean ? prompt_length() : 1;
  std::vector<float> embedding;
  embedding.reserve(pooled.size());
  for (const double sum : pooled) embedding.push_back(static_cast<float>(sum / rows));
  return embedding;
}

std::vector<BlockId> Sequence::HandedOver(int32_t tokens) const {
  const int32_t end = std::min(block_end_, BlocksForTokens(tokens));
  std::vector<BlockId> handed_over;
  handed_over.reserve(static_cast<size_t>(groups_.HandedOverBefore(end, tokens)));
  const int32_t first_seen = groups_.sliding == 0 ? end : groups_.FirstSeen(tokens);
  for (int32_t i = 0; i < end; ++i) {
    const int32_t count = i < first_seen ? groups_.full : groups_.count();
    for (int32_t group = 0; group < count; ++group) handed_over.push_back(block(group, i));
  }
  return handed_over;
}

int32_t Sequence::blocks_to_resume() const { return BlocksForTokens(std::min(length() + 1, token_limit_ - 1)); }

int32_t Sequence::FirstNeeded(int32_t cached) const {
  return groups_.FirstSeen(pulls() ? prompt_length() : cached * kBlockTokens);
}

int32_t Sequence::SlidingBlocks(int32_t cached, int32_t end) const {
  if (groups_.sliding == 0) return 0;
  const int32_t to_the_end = end - FirstNeeded(cached);
  if (pulls()) return to_the_end;
  return std::min(to_the_end, groups_.MostSlidingBlocks(int64_t{end} * kBlockTokens, chunk_tokens_));
}

absl::Span<const Digest128> Sequence::BlockNames(int32_t count) {
  BATON_CHECK(count * kBlockTokens <= length()) << count << " blocks of " << length() << " tokens";
  while (static_cast<int32_t>(names_.size()) < count) {
    const Digest128 parent = names_.empty() ? prefix_names_.Root(spec_.tenant) : names_.back();
    names_.push_back(prefix_names_.Next(parent, tokens().subspan(names_.size() * kBlockTokens, kBlockTokens)));
  }
  return absl::MakeConstSpan(names_).first(static_cast<size_t>(count));
}

void Sequence::Append(int32_t token) {
  BATON_CHECK(length() < token_limit_) << "sequence " << id_ << " is beyond its limit of " << token_limit_;
  tokens_.push_back(token);
}

void Sequence::SetBlock(int32_t group, int32_t index, BlockId block) {
  blocks_[At(group, index)] = block;
  block_end_ = std::max(block_end_, index + 1);
}

BlockId Sequence::TakeOut(int32_t group, int32_t index) {
  BATON_CHECK(block(group, index) != kNoBlock) << "sequence " << id_ << ", group " << group << ", block " << index;
  return std::exchange(blocks_[At(group, index)], kNoBlock);
}

void Sequence::Promise(int32_t count, BlockPool& pool) {
  pool.Promise(count);
  promised_ += count;
}

void Sequence::TakePromised(int32_t end, BlockPool& pool) {
  if (groups_.sliding == 0) return;
  for (int32_t i = computed_ / kBlockTokens; i < BlocksForTokens(end); ++i) {
    for (int32_t group = groups_.full; group < groups_.count(); ++group) {
      BATON_CHECK(promised_ > 0 && block(group, i) == kNoBlock) << "sequence " << id_ << ", rows up to " << end;
      SetBlock(group, i, pool.TakePromised());
      --promised_;
    }
  }
}

void Sequence::ReturnPromised(BlockPool& pool) { pool.ReturnPromised(std::exchange(promised_, 0)); }

bool Sequence::Grow(BlockPool& pool) {
  // A row within a block needs no more blocks than the row before it.
  if (computed_ % kBlockTokens != 0) return true;
  const int32_t index = computed_ / kBlockTokens;
  for (int32_t group = 0; group < groups_.count(); ++group) {
    if (block(group, index) != kNoBlock) continue;
    const BlockId taken = pool.Allocate(group < groups_.full ? BlockKind::kFull : BlockKind::kSliding);
    if (taken == kNoBlock) return false;
    SetBlock(group, index, taken);
  }
  return true;
}

void Sequence::Slide(BlockPool& pool) {
  if (groups_.sliding == 0) return;
  for (const int32_t end = groups_.FirstSeen(computed_); sliding_begin_ < end; ++sliding_begin_) {
    for (int32_t group = groups_.full; group < groups_.count(); ++group) {
      BlockId& given = blocks_[At(group, sliding_begin_)];
      pool.Unref(std::exchange(given, kNoBlock));
      if (state == SequenceState::kPrefill) Promise(1, pool);
    }
  }
}

void Sequence::PublishFullBlocks(BlockPool& pool) {
  const int32_t full = computed_ / kBlockTokens;
  if (published_blocks_ >= full) return;
  const absl::Span<const Digest128> names = BlockNames(full);
  for (; published_blocks_ < full; ++published_blocks_) {
    const int32_t count = published_blocks_ < sliding_begin_ ? groups_.full : groups_.count();
    const Digest128 name = MarkedName(names[static_cast<size_t>(published_blocks_)], marks_.back());
    for (int32_t group = 0; group < count; ++group) {
      pool.Publish(block(group, published_blocks_), NameInGroup(name, group));
    }
  }
}

void Sequence::ReleaseBlocks(BlockPool& pool) {
  for (int32_t i = block_end_ - 1; i >= 0; --i) {
    for (int32_t group = groups_.count() - 1; group >= 0; --group) {
      BlockId& given = blocks_[At(group, i)];
      if (given != kNoBlock) pool.Unref(std::exchange(given, kNoBlock));
    }
  }
  ReturnPromised(pool);
  block_end_ = 0;
  sliding_begin_ = 0;
  computed_ = 0;
  published_blocks_ = 0;
  tail_is_zero = false;
}

PrefixHits FindPrefix(Sequence& sequence, const BlockPool& pool) {
  const KvGroups& groups = sequence.groups();
  PrefixHits hits;
  int32_t used_blocks = 0;
  // From it on, sliding groups have all blocks.
  int32_t sliding_begin = 0;
  int32_t end = 0;
  for (const Digest128& name : sequence.BlockNames(sequence.most_cached_blocks())) {
    for (int32_t group = 0; group < groups.full; ++group) {
      const BlockId block = FindBlock(sequence, name, group, pool);
      if (block == kNoBlock) return hits;
      if (pool.refs(block) > 0) ++used_blocks;
    }
    ++end;
    if (!HasSlidingBlocks(sequence, name, pool)) sliding_begin = end;
    const int32_t needed = sequence.FirstNeeded(end);
    if (sliding_begin <= needed || needed >= end) hits = {.blocks = end, .used_blocks = used_blocks};
  }
  return hits;
}

int32_t BlocksToTake(const Sequence& sequence, const PrefixHits& hits, int32_t block_count) {
  const KvGroups& groups = sequence.groups();
  return groups.full * block_count - hits.used_blocks +
         groups.sliding * sequence.SlidingBlocks(hits.blocks, block_count);
}

void TakeBlocks(Sequence& sequence, const PrefixHits& hits, int32_t block_count, BlockPool& pool) {
  const KvGroups& groups = sequence.groups();
  const int32_t first_needed = sequence.FirstNeeded(hits.blocks);
  const absl::Span<const Digest128> names = sequence.BlockNames(hits.blocks);
  int32_t sliding_blocks = 0;
  for (int32_t i = 0; i < block_count; ++i) {
    const bool is_hit = i < hits.blocks;
    const bool slides = i >= first_needed && (is_hit || sequence.pulls());
    for (int32_t group = 0; group < (slides ? groups.count() : groups.full); ++group) {
      const BlockKind kind = group < groups.full ? BlockKind::kFull : BlockKind::kSliding;
      const BlockId block =
          is_hit ? AcquireBlock(sequence, names[static_cast<size_t>(i)], group, pool) : pool.Allocate(kind);
      BATON_CHECK(block != kNoBlock) << "sequence " << sequence.id() << " was promised " << block_count << " blocks";
      sequence.SetBlock(group, i, block);
      if (kind == BlockKind::kSliding) ++sliding_blocks;
    }
  }
  sequence.set_sliding_begin(first_needed);
  sequence.Promise(groups.sliding * sequence.SlidingBlocks(hits.blocks, block_count) - sliding_blocks, pool);
  sequence.set_computed(hits.blocks * kBlockTokens);
}

}  // namespace baton::engine
