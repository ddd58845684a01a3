// Knows which blocks of the KV pool are used, how many references each has, and which hold a named prefix. This is
// bookkeeping only: it never sees the bytes.
//
//   a block is | refs | named    | event          | becomes
//   -----------+------+----------+----------------+-----------------------------------------------
//   free       | 0    | no       | Allocate       | used, refs 1
//   used       | > 0  | perhaps  | Ref, Unref     | used; at refs 0: cached when named, else free
//   used       | > 0  | no       | Publish        | used and named, unless another block has the name
//   cached     | 0    | yes      | Acquire(name)  | used, refs 1
//   cached     | 0    | yes      | Allocate       | used, refs 1, name forgotten: the least recently used goes first
//
// While a sequence is computed, it gives blocks of sliding groups back and needs others in their place. The pool
// promises it as many blocks as it will hold of these groups at once. A promise names no blocks: it lowers available()
// by a number. When the sequence gives a block back, it gets the promise of one in return, even if another sequence
// still refers to this block. Hence each reference to a block of a sliding group lowers available() by one, whether the
// block is shared or not.
//
// Every operation is O(1) and allocates nothing after construction. Used by one thread.
#ifndef BATON_ENGINE_BLOCK_POOL_H_
#define BATON_ENGINE_BLOCK_POOL_H_

#include <cstdint>
#include <vector>

#include "common/digest.h"
#include "common/kv_layout.h"

namespace baton::engine {

// The kind of group that a block belongs to.
enum class BlockKind : uint8_t { kFull, kSliding };

class BlockPool {
 public:
  explicit BlockPool(int32_t block_count);

  // One reference to a block of unspecified content; kNoBlock when all are used or promised.
  BlockId Allocate(BlockKind kind = BlockKind::kFull);
  // Holds back `count` blocks, at most available(), until TakePromised takes them or ReturnPromised gives them up.
  void Promise(int32_t count);
  void ReturnPromised(int32_t count);
  // One reference to a block of a sliding group.
  BlockId TakePromised();
  // Adds a reference to a used block.
  void Ref(BlockId block);
  // Drops a reference. Aborts when the block has none, which is a bug.
  void Unref(BlockId block);

  // Names a used block whose content is complete and will not change any more. False when another block has the name
  // already (the first keeps it) or this block has one.
  bool Publish(BlockId block, const Digest128& name);
  // The block of that name, used or cached, or kNoBlock.
  BlockId Find(const Digest128& name) const;
  // Find, and a reference to the block that is found. The caller makes sure that available() covers what the reference
  // takes.
  BlockId Acquire(const Digest128& name);

  int32_t refs(BlockId block) const { return at(block).refs; }
  int32_t total() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t free_count() const { return free_.count; }
  int32_t cached_count() const { return lru_.count; }
  int32_t used_count() const { return total() - free_count() - cached_count(); }
  // The blocks below this one have been given out at least once, the others never.
  int32_t touched_end() const { return touched_end_; }
  int32_t promised_count() const { return promised_; }
  // Blocks that Allocate can still give.
  int32_t available() const { return free_count() + cached_count() - promised_ - shared_; }

 private:
  struct Block {
    int32_t refs = 0;
    BlockKind kind = BlockKind::kFull;
    bool named = false;
    // Neighbours in the list that the block is in: the free list or the LRU list.
    BlockId previous = kNoBlock;
    BlockId next = kNoBlock;
    // The next block in the same bucket of the index.
    BlockId next_in_bucket = kNoBlock;
    Digest128 name;
  };
  // Intrusive: the links are in the blocks.
  struct List {
    BlockId head = kNoBlock;
    BlockId tail = kNoBlock;
    int32_t count = 0;
  };

  const Block& at(BlockId block) const;
  Block& at(BlockId block);
  void PushFront(List& list, BlockId block);
  void PushBack(List& list, BlockId block);
  void Remove(List& list, BlockId block);
  BlockId Take(BlockKind kind);
  void AddRef(Block& block);
  BlockId& Bucket(const Digest128& name);
  void Forget(BlockId block);

  std::vector<Block> blocks_;
  // The index of names: a power of two, at least one bucket per block.
  std::vector<BlockId> buckets_;
  // The block that was given back last comes first: its memory is backed, and may still be in a cache. Blocks that were
  // never given out come last, in ascending order.
  List free_;
  // Named blocks without a reference, least recently used first.
  List lru_;
  int32_t promised_ = 0;
  int32_t touched_end_ = 0;
  // References to blocks of sliding groups, beyond the first reference to each block.
  int32_t shared_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_BLOCK_POOL_H_
