#include "engine/block_pool.h"

#include <algorithm>
#include <deque>
#include <iostream>
#include <map>
#include <vector>

#include "common/random.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

Digest128 Name(uint64_t i) { return {i, i % 3}; }  // few buckets, so that chains are long

TEST(BlockPool, GivesEveryBlockOnceAndThenNone) {
  BlockPool pool(3);
  std::vector<BlockId> got = {pool.Allocate(), pool.Allocate(), pool.Allocate()};
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, (std::vector<BlockId>{0, 1, 2}));
  EXPECT_EQ(pool.Allocate(), kNoBlock);
  EXPECT_EQ(pool.used_count(), 3);
}

TEST(BlockPool, ReleasedBlockIsCachedWhenNamedAndFreeOtherwise) {
  BlockPool pool(2);
  const BlockId named = pool.Allocate();
  const BlockId plain = pool.Allocate();
  EXPECT_TRUE(pool.Publish(named, Name(1)));
  pool.Unref(named);
  pool.Unref(plain);
  EXPECT_EQ(pool.cached_count(), 1);
  EXPECT_EQ(pool.free_count(), 1);
  EXPECT_EQ(pool.used_count(), 0);
  EXPECT_EQ(pool.Find(Name(1)), named);
}

TEST(BlockPool, SharedBlockStaysUsedUntilItsLastReferenceGoes) {
  BlockPool pool(1);
  const BlockId block = pool.Allocate();
  pool.Publish(block, Name(1));
  EXPECT_EQ(pool.Acquire(Name(1)), block);
  EXPECT_EQ(pool.refs(block), 2);
  pool.Unref(block);
  EXPECT_EQ(pool.used_count(), 1);
  pool.Unref(block);
  EXPECT_EQ(pool.used_count(), 0);
}

TEST(BlockPool, EvictsTheLeastRecentlyUsedAndForgetsItsName) {
  BlockPool pool(3);
  for (uint64_t i = 0; i < 3; ++i) pool.Publish(pool.Allocate(), Name(i));
  for (uint64_t i = 0; i < 3; ++i) pool.Unref(pool.Find(Name(i)));
  pool.Unref(pool.Acquire(Name(0)));  // 1 is the oldest now
  const BlockId oldest = pool.Find(Name(1));
  EXPECT_EQ(pool.Allocate(), oldest);
  EXPECT_EQ(pool.Find(Name(1)), kNoBlock);
  EXPECT_NE(pool.Find(Name(0)), kNoBlock);
  EXPECT_NE(pool.Find(Name(2)), kNoBlock);
}

TEST(BlockPool, TakesFreeBlocksBeforeCachedOnes) {
  BlockPool pool(2);
  const BlockId named = pool.Allocate();
  pool.Publish(named, Name(1));
  pool.Unref(named);
  EXPECT_NE(pool.Allocate(), named);
  EXPECT_EQ(pool.cached_count(), 1);
}

TEST(BlockPool, FirstBlockOfANameKeepsIt) {
  BlockPool pool(2);
  const BlockId first = pool.Allocate();
  const BlockId second = pool.Allocate();
  EXPECT_TRUE(pool.Publish(first, Name(1)));
  EXPECT_FALSE(pool.Publish(second, Name(1)));
  EXPECT_EQ(pool.Find(Name(1)), first);
  pool.Unref(second);
  EXPECT_EQ(pool.free_count(), 1);
}

TEST(BlockPool, PromisedBlocksAreKeptFromOthers) {
  BlockPool pool(3);
  pool.Promise(2);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_NE(pool.Allocate(), kNoBlock);
  EXPECT_EQ(pool.Allocate(), kNoBlock);
  EXPECT_NE(pool.TakePromised(), kNoBlock);
  EXPECT_EQ(pool.Allocate(), kNoBlock);
  pool.ReturnPromised(1);
  EXPECT_NE(pool.Allocate(), kNoBlock);
}

TEST(BlockPool, EvictsACachedBlockForAPromise) {
  BlockPool pool(1);
  const BlockId block = pool.Allocate();
  pool.Publish(block, Name(1));
  pool.Unref(block);
  pool.Promise(1);
  EXPECT_EQ(pool.Find(Name(1)), block);
  EXPECT_EQ(pool.TakePromised(), block);
  EXPECT_EQ(pool.Find(Name(1)), kNoBlock);
}

// A sequence that gives such a block back can have another one for it, whoever still refers to the first.
TEST(BlockPool, EachReferenceToABlockOfASlidingGroupTakesOne) {
  BlockPool pool(3);
  const BlockId sliding = pool.Allocate(BlockKind::kSliding);
  pool.Publish(sliding, Name(1));
  EXPECT_EQ(pool.available(), 2);
  EXPECT_EQ(pool.Acquire(Name(1)), sliding);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_EQ(pool.used_count(), 1);
  pool.Unref(sliding);
  EXPECT_EQ(pool.available(), 2);
  pool.Promise(1);
  EXPECT_EQ(pool.available(), 1);
  pool.Unref(sliding);
  EXPECT_EQ(pool.available(), 2);
  // A block of a full group afterwards, which is shared for nothing.
  pool.ReturnPromised(1);
  for (int i = 0; i < 3; ++i) pool.Publish(pool.Allocate(), Name(static_cast<uint64_t>(i) + 2));
  EXPECT_EQ(pool.available(), 0);
  EXPECT_NE(pool.Acquire(Name(2)), kNoBlock);
  EXPECT_EQ(pool.available(), 0);
}

TEST(BlockPoolDeathTest, AbortsOnPromisesThatCannotBeKept) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.Promise(3), "3 of 2");
  EXPECT_DEATH(pool.ReturnPromised(1), "1 of 0");
  EXPECT_DEATH(pool.TakePromised(), "promised_ > 0");
  const BlockId block = pool.Allocate(BlockKind::kSliding);
  pool.Promise(1);
  EXPECT_DEATH(pool.Ref(block), "takes a promised block");
}

TEST(BlockPoolDeathTest, AbortsOnDoubleFreeAndOnUseOfAFreeBlock) {
  BlockPool pool(2);
  const BlockId block = pool.Allocate();
  pool.Unref(block);
  EXPECT_DEATH(pool.Unref(block), "freed twice");
  EXPECT_DEATH(pool.Ref(block), "unused");
  EXPECT_DEATH(pool.Publish(block, Name(1)), "unused");
  EXPECT_DEATH(pool.Unref(2), "no block 2");
}

// The same pool in the plainest terms.
class PoolModel {
 public:
  explicit PoolModel(int32_t count)
      : refs_(static_cast<size_t>(count), 0), sliding_(static_cast<size_t>(count), false) {}

  int32_t available() const {
    int32_t free = 0, shared = 0;
    for (size_t b = 0; b < refs_.size(); ++b) {
      free += refs_[b] == 0 ? 1 : 0;
      shared += sliding_[b] && refs_[b] > 0 ? refs_[b] - 1 : 0;
    }
    return free - shared - promised_;
  }
  // By how much a reference to a block lowers it.
  bool TakesOne(BlockId b) { return refs(b) == 0 || sliding_[static_cast<size_t>(b)]; }
  void OnPromise(int32_t count) { promised_ += count; }
  int32_t promised() const { return promised_; }

  void OnTakePromised(BlockId got) {
    --promised_;
    OnAllocate(got, true);
  }
  void OnAllocate(BlockId got, bool sliding) {
    if (available() == 0) {
      ASSERT_EQ(got, kNoBlock);
      return;
    }
    const auto unnamed_free = [&](BlockId b) { return refs(b) == 0 && !Named(b); };
    bool any_free = false;
    for (BlockId b = 0; b < count(); ++b) any_free |= unnamed_free(b);
    if (any_free) {
      ASSERT_TRUE(got != kNoBlock && unnamed_free(got));
    } else if (!lru_.empty()) {
      ASSERT_EQ(got, lru_.front());
      lru_.pop_front();
      std::erase_if(names_, [&](const auto& entry) { return entry.second == got; });
    } else {
      ASSERT_EQ(got, kNoBlock);
      return;
    }
    refs(got) = 1;
    sliding_[static_cast<size_t>(got)] = sliding;
  }
  void OnUnref(BlockId b) {
    if (--refs(b) == 0 && Named(b)) lru_.push_back(b);
  }
  void OnAcquire(uint64_t name, BlockId got) {
    const auto it = names_.find(name);
    ASSERT_EQ(got, it == names_.end() ? kNoBlock : it->second);
    if (got == kNoBlock) return;
    if (refs(got)++ == 0) lru_.erase(std::find(lru_.begin(), lru_.end(), got));
  }
  void OnPublish(BlockId b, uint64_t name, bool done) {
    ASSERT_EQ(done, !Named(b) && !names_.contains(name));
    if (done) names_[name] = b;
  }
  int32_t& refs(BlockId b) { return refs_[static_cast<size_t>(b)]; }
  int32_t count() const { return static_cast<int32_t>(refs_.size()); }
  int32_t cached() const { return static_cast<int32_t>(lru_.size()); }
  int32_t used() const { return count() - static_cast<int32_t>(std::count(refs_.begin(), refs_.end(), 0)); }

 private:
  bool Named(BlockId b) const {
    return std::any_of(names_.begin(), names_.end(), [&](const auto& entry) { return entry.second == b; });
  }

  std::vector<int32_t> refs_;
  std::vector<bool> sliding_;
  int32_t promised_ = 0;
  std::map<uint64_t, BlockId> names_;
  std::deque<BlockId> lru_;
};

void CheckOneSeed(uint64_t seed) {
  SeededRandom random(seed);
  const int32_t count = 1 + static_cast<int32_t>(random.Below(12));
  BlockPool pool(count);
  PoolModel model(count);
  std::vector<BlockId> held;  // one entry a reference
  for (int step = 0; step < 400; ++step) {
    const uint64_t name = random.Below(20);
    const size_t pick = held.empty() ? 0 : random.Below(held.size());
    const uint64_t action = random.Below(held.empty() ? 4 : 7);
    if (action == 0) {
      const bool sliding = random.Below(2) == 0;
      const BlockId got = pool.Allocate(sliding ? BlockKind::kSliding : BlockKind::kFull);
      model.OnAllocate(got, sliding);
      if (got != kNoBlock) held.push_back(got);
    } else if (action == 2) {
      const int32_t promise = static_cast<int32_t>(random.Below(static_cast<uint64_t>(model.available()) + 1));
      pool.Promise(promise);
      model.OnPromise(promise);
    } else if (action == 3) {
      if (model.promised() == 0) continue;
      if (random.Below(3) == 0) {
        pool.ReturnPromised(1);
        model.OnPromise(-1);
      } else {
        held.push_back(pool.TakePromised());
        model.OnTakePromised(held.back());
      }
    } else if (action == 1) {
      const BlockId found = pool.Find(Name(name));
      if (found != kNoBlock && model.TakesOne(found) && model.available() == 0) continue;
      const BlockId got = pool.Acquire(Name(name));
      model.OnAcquire(name, got);
      if (got != kNoBlock) held.push_back(got);
    } else if (action == 4) {
      model.OnPublish(held[pick], name, pool.Publish(held[pick], Name(name)));
    } else {
      pool.Unref(held[pick]);
      model.OnUnref(held[pick]);
      held.erase(held.begin() + static_cast<ptrdiff_t>(pick));
    }
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_EQ(pool.used_count(), model.used());
    ASSERT_EQ(pool.cached_count(), model.cached());
    ASSERT_EQ(pool.free_count(), count - model.used() - model.cached());
    ASSERT_EQ(pool.promised_count(), model.promised());
    ASSERT_EQ(pool.available(), model.available());
    for (BlockId b = 0; b < count; ++b) ASSERT_EQ(pool.refs(b), model.refs(b));
  }
}

TEST(BlockPool, MemoryThatWasUsedIsUsedAgainBeforeNewMemory) {
  BlockPool pool(8);
  const BlockId first = pool.Allocate();
  const BlockId second = pool.Allocate();
  EXPECT_EQ(pool.touched_end(), 2);
  pool.Unref(second);
  pool.Unref(first);
  EXPECT_EQ(pool.Allocate(), first);
  EXPECT_EQ(pool.Allocate(), second);
  EXPECT_EQ(pool.touched_end(), 2);
  EXPECT_EQ(pool.Allocate(), 2);
  EXPECT_EQ(pool.touched_end(), 3);
}

TEST(BlockPool, AgreesWithAPlainModelUnderRandomUse) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CheckOneSeed(seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace baton::engine
