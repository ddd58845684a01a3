// Which blocks of the KV pool are used, by how many, and which hold a named prefix. Bookkeeping only: it never sees the
// bytes.
//
//   a block is | refs | named    | event          | becomes
//   -----------+------+----------+----------------+-----------------------------------------------
//   free       | 0    | no       | Allocate       | used, refs 1
//   used       | > 0  | perhaps  | Ref, Unref     | used; at refs 0: cached when named, else free
//   used       | > 0  | no       | Publish        | used and named, unless another block has the name
//   cached     | 0    | yes      | Acquire(name)  | used, refs 1
//   cached     | 0    | yes      | Allocate       | used, refs 1, name forgotten: the least recently used goes first
//
// A sequence gives blocks of sliding groups back while it is computed, and must get others in their place. It is
// promised as many as it will hold of them at once; a promise holds back free or cached blocks, whichever. It gets its
// promise back with a block that it gives back, also when somebody else still refers to that: so each reference to a
// block of a sliding group takes one from available(), shared or not.
//
// Every operation is O(1) and allocates nothing after construction. Used by one thread.
#ifndef BATON_ENGINE_BLOCK_POOL_H_
#define BATON_ENGINE_BLOCK_POOL_H_

#include <cstdint>
#include <vector>

#include "common/digest.h"
#include "common/kv_layout.h"

namespace baton::engine {

// Of which kind of group a block is.
enum class BlockKind : uint8_t { kFull, kSliding };

class BlockPool {
 public:
  explicit BlockPool(int32_t block_count);

  // One reference to a block of unspecified content; kNoBlock when all are used or promised.
  BlockId Allocate(BlockKind kind = BlockKind::kFull);
  // So many, at most available(), will be had by TakePromised, or not be needed after all.
  void Promise(int32_t count);
  void ReturnPromised(int32_t count);
  // One reference to a block of a sliding group.
  BlockId TakePromised();
  // Adds a reference to a used block.
  void Ref(BlockId block);
  // Drops one. Of a block that has none it is a bug, which aborts.
  void Unref(BlockId block);

  // Names a used block whose content is complete and will not change any more. False when another block has the name
  // already (the first keeps it) or this block has one.
  bool Publish(BlockId block, const Digest128& name);
  // The block of that name, used or cached, or kNoBlock.
  BlockId Find(const Digest128& name) const;
  // Find, and a reference to what is found. Whatever it takes from available() must be there.
  BlockId Acquire(const Digest128& name);

  int32_t refs(BlockId block) const { return at(block).refs; }
  int32_t total() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t free_count() const { return free_.count; }
  int32_t cached_count() const { return lru_.count; }
  int32_t used_count() const { return total() - free_count() - cached_count(); }
  // Blocks below it were given out before, no other was.
  int32_t touched_end() const { return touched_end_; }
  int32_t promised_count() const { return promised_; }
  // What Allocate can give.
  int32_t available() const { return free_count() + cached_count() - promised_ - shared_; }

 private:
  struct Block {
    int32_t refs = 0;
    BlockKind kind = BlockKind::kFull;
    bool named = false;
    // In the free list or the LRU list, whichever it is in.
    BlockId previous = kNoBlock;
    BlockId next = kNoBlock;
    // Of the same bucket of the index.
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
  // Power of two, at least one bucket a block.
  std::vector<BlockId> buckets_;
  // Last given back first: its memory is there, and may still be in a cache. Those never given out are last, ascending.
  List free_;
  // Named blocks without a reference, least recently used first.
  List lru_;
  int32_t promised_ = 0;
  int32_t touched_end_ = 0;
  // References to blocks of sliding groups beyond the first one of each.
  int32_t shared_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_BLOCK_POOL_H_
