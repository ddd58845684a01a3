#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "engine/prefix_hash.h"

namespace baton::engine {

Sequence::Sequence(SequenceId id, SequenceSpec spec, int32_t token_limit)
    : id_(id), spec_(std::move(spec)), token_limit_(token_limit) {
  const size_t block_limit = static_cast<size_t>(BlocksForTokens(token_limit));
  tokens_.reserve(static_cast<size_t>(token_limit));
  tokens_.assign(spec_.prompt.begin(), spec_.prompt.end());
  blocks_.reserve(block_limit);
  names_.reserve(block_limit);
}

int32_t Sequence::blocks_to_resume() const { return BlocksForTokens(std::min(length() + 1, token_limit_ - 1)); }

absl::Span<const Digest128> Sequence::BlockNames(int32_t count) {
  BATON_CHECK(count * kBlockTokens <= length()) << count << " blocks of " << length() << " tokens";
  while (static_cast<int32_t>(names_.size()) < count) {
    const Digest128 parent = names_.empty() ? PrefixRoot(spec_.tenant) : names_.back();
    names_.push_back(NextBlockName(parent, tokens().subspan(names_.size() * kBlockTokens, kBlockTokens)));
  }
  return absl::MakeConstSpan(names_).first(static_cast<size_t>(count));
}

void Sequence::Append(int32_t token) {
  BATON_CHECK(length() < token_limit_) << "sequence " << id_ << " is beyond its limit of " << token_limit_;
  tokens_.push_back(token);
}

void Sequence::PublishFullBlocks(BlockPool& pool) {
  const int32_t full = computed_ / kBlockTokens;
  if (published_blocks_ >= full) return;
  const absl::Span<const Digest128> names = BlockNames(full);
  for (; published_blocks_ < full; ++published_blocks_) {
    const size_t i = static_cast<size_t>(published_blocks_);
    pool.Publish(blocks_[i], names[i]);
  }
}

void Sequence::ReleaseBlocks(BlockPool& pool) {
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) pool.Unref(*block);
  blocks_.clear();
  computed_ = 0;
  published_blocks_ = 0;
  tail_is_zero = false;
}

PrefixHits FindPrefix(Sequence& sequence, const BlockPool& pool) {
  PrefixHits hits;
  for (const Digest128& name : sequence.BlockNames((sequence.length() - 1) / kBlockTokens)) {
    const BlockId block = pool.Find(name);
    if (block == kNoBlock) break;
    ++hits.blocks;
    if (pool.refs(block) > 0) ++hits.used_blocks;
  }
  return hits;
}

void TakeBlocks(Sequence& sequence, const PrefixHits& hits, int32_t block_count, BlockPool& pool) {
  for (const Digest128& name : sequence.BlockNames(hits.blocks)) {
    const BlockId block = pool.Acquire(name);
    BATON_CHECK(block != kNoBlock);
    sequence.AddBlock(block);
  }
  while (sequence.block_count() < block_count) {
    const BlockId block = pool.Allocate();
    BATON_CHECK(block != kNoBlock) << "sequence " << sequence.id() << " was promised " << block_count << " blocks";
    sequence.AddBlock(block);
  }
  sequence.set_computed(hits.blocks * kBlockTokens);
}

}  // namespace baton::engine
