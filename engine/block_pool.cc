#include "engine/block_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/check.h"

namespace baton::engine {

BlockPool::BlockPool(int32_t block_count) {
  BATON_CHECK(block_count > 0) << block_count;
  blocks_.resize(static_cast<size_t>(block_count));
  buckets_.assign(std::bit_ceil(static_cast<size_t>(block_count)), kNoBlock);
  for (BlockId block = 0; block < block_count; ++block) PushBack(free_, block);
}

BlockId BlockPool::Allocate(BlockKind kind) { return available() > 0 ? Take(kind) : kNoBlock; }

void BlockPool::Promise(int32_t count) {
  BATON_CHECK(count >= 0 && count <= available()) << count << " of " << available();
  promised_ += count;
}

void BlockPool::ReturnPromised(int32_t count) {
  BATON_CHECK(count >= 0 && count <= promised_) << count << " of " << promised_;
  promised_ -= count;
}

BlockId BlockPool::TakePromised() {
  BATON_CHECK(promised_ > 0);
  --promised_;
  return Take(BlockKind::kSliding);
}

BlockId BlockPool::Take(BlockKind kind) {
  BlockId block = free_.head;
  if (block != kNoBlock) {
    Remove(free_, block);
    touched_end_ = std::max(touched_end_, block + 1);
  } else {
    block = lru_.head;
    Remove(lru_, block);
    Forget(block);
  }
  at(block).refs = 1;
  at(block).kind = kind;
  return block;
}

void BlockPool::Ref(BlockId block) {
  Block& b = at(block);
  BATON_CHECK(b.refs > 0) << "reference to unused block " << block;
  AddRef(b);
}

void BlockPool::AddRef(Block& block) {
  if (block.refs++ > 0 && block.kind == BlockKind::kSliding) ++shared_;
  BATON_CHECK(available() >= 0) << "a reference that takes a promised block";
}

void BlockPool::Unref(BlockId block) {
  Block& b = at(block);
  BATON_CHECK(b.refs > 0) << "block " << block << " freed twice";
  if (--b.refs == 0) {
    if (b.named) {
      PushBack(lru_, block);
    } else {
      PushFront(free_, block);
    }
  } else if (b.kind == BlockKind::kSliding) {
    --shared_;
  }
}

bool BlockPool::Publish(BlockId block, const Digest128& name) {
  Block& b = at(block);
  BATON_CHECK(b.refs > 0) << "unused block " << block << " published";
  if (b.named || Find(name) != kNoBlock) return false;
  b.named = true;
  b.name = name;
  BlockId& bucket = Bucket(name);
  b.next_in_bucket = bucket;
  bucket = block;
  return true;
}

BlockId BlockPool::Find(const Digest128& name) const {
  BlockId block = const_cast<BlockPool*>(this)->Bucket(name);
  while (block != kNoBlock && at(block).name != name) block = at(block).next_in_bucket;
  return block;
}

BlockId BlockPool::Acquire(const Digest128& name) {
  const BlockId block = Find(name);
  if (block == kNoBlock) return kNoBlock;
  if (at(block).refs == 0) Remove(lru_, block);
  AddRef(at(block));
  return block;
}

const BlockPool::Block& BlockPool::at(BlockId block) const {
  BATON_CHECK(block >= 0 && block < total()) << "no block " << block;
  return blocks_[static_cast<size_t>(block)];
}

BlockPool::Block& BlockPool::at(BlockId block) { return const_cast<Block&>(std::as_const(*this).at(block)); }

void BlockPool::PushFront(List& list, BlockId block) {
  Block& b = at(block);
  b.previous = kNoBlock;
  b.next = list.head;
  (list.head == kNoBlock ? list.tail : at(list.head).previous) = block;
  list.head = block;
  ++list.count;
}

void BlockPool::PushBack(List& list, BlockId block) {
  Block& b = at(block);
  b.previous = list.tail;
  b.next = kNoBlock;
  (list.tail == kNoBlock ? list.head : at(list.tail).next) = block;
  list.tail = block;
  ++list.count;
}

void BlockPool::Remove(List& list, BlockId block) {
  Block& b = at(block);
  (b.previous == kNoBlock ? list.head : at(b.previous).next) = b.next;
  (b.next == kNoBlock ? list.tail : at(b.next).previous) = b.previous;
  --list.count;
}

BlockId& BlockPool::Bucket(const Digest128& name) { return buckets_[name.low & (buckets_.size() - 1)]; }

void BlockPool::Forget(BlockId block) {
  Block& b = at(block);
  BlockId* link = &Bucket(b.name);
  while (*link != block) link = &at(*link).next_in_bucket;
  *link = b.next_in_bucket;
  b.named = false;
}

}  // namespace baton::engine
