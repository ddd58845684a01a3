// Runs sequences through a model without an engine: each has the blocks that its rows see and no others. For tests.
#ifndef BATON_ENGINE_TESTING_RUN_SEQUENCES_H_
#define BATON_ENGINE_TESTING_RUN_SEQUENCES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "common/random.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/model_runner.h"

namespace baton::engine {

// What one sequence leaves behind.
struct Outcome {
  std::vector<float> logits;  // [tokens][vocab]
  std::vector<uint8_t> kv;    // its blocks in order
};

// The memory of a pool, wherever the runner computes.
class TestMemory {
 public:
  virtual ~TestMemory() = default;
  virtual KvPool& pool() = 0;
  virtual std::vector<uint8_t> Read(BlockId block) const = 0;
  // Sets every byte of the block.
  virtual void Fill(BlockId block, uint8_t value) = 0;
};

class HostTestMemory final : public TestMemory {
 public:
  HostTestMemory(size_t block_bytes, int count)
      : memory_(static_cast<size_t>(count) * block_bytes),
        pool_(absl::MakeSpan(memory_.data(), memory_.bytes()), block_bytes) {}
  KvPool& pool() override { return pool_; }
  std::vector<uint8_t> Read(BlockId block) const override { return {At(block), At(block) + pool_.block_bytes()}; }
  void Fill(BlockId block, uint8_t value) override { std::memset(At(block), value, pool_.block_bytes()); }

 private:
  uint8_t* At(BlockId block) const { return memory_.data() + static_cast<size_t>(block) * pool_.block_bytes(); }

  kernels::AlignedBuffer memory_;
  HostKvPool pool_;
};

// Makes the memory of a runner's pool of some blocks.
using MakeTestMemory = std::function<std::unique_ptr<TestMemory>(ModelRunner& runner, int count)>;

inline std::unique_ptr<TestMemory> MakeHostTestMemory(ModelRunner& runner, int count) {
  return std::make_unique<HostTestMemory>(runner.kv_layout().block_bytes(), count);
}

// The blocks of a pool, drawn at random. One that is given back holds garbage until it is taken again.
class TestBlocks {
 public:
  TestBlocks(ModelRunner& runner, int count, RandomSource& random, const MakeTestMemory& make = MakeHostTestMemory)
      : memory_(make(runner, count)) {
    free_.resize(static_cast<size_t>(count));
    std::iota(free_.begin(), free_.end(), 0);
    for (size_t i = free_.size(); i > 1; --i) std::swap(free_[i - 1], free_[random.Below(i)]);
    runner.SetKvPool(memory_->pool());
  }

  BlockId Take() {
    const BlockId block = free_.back();
    free_.pop_back();
    memory_->pool().Zero(block);
    return block;
  }
  // What it held.
  std::vector<uint8_t> GiveBack(BlockId block) {
    std::vector<uint8_t> held = memory_->Read(block);
    memory_->Fill(block, 0xff);
    free_.push_back(block);
    return held;
  }

 private:
  const std::unique_ptr<TestMemory> memory_;
  std::vector<BlockId> free_;
};

// One sequence on its way through a runner; it has the blocks that it needs and no others.
class TestSequence {
 public:
  TestSequence(const std::vector<int32_t>& tokens, const KvGroups& groups, TestBlocks& pool)
      : tokens_(tokens),
        groups_(groups),
        pool_(pool),
        stride_(BlocksForTokens(static_cast<int64_t>(tokens.size()))),
        blocks_(static_cast<size_t>(groups.count() * stride_), kNoBlock),
        held_(blocks_.size()) {}

  size_t left() const { return tokens_.size() - done_; }

  // Its next rows, which come after those of `tokens`.
  SequenceSlice Advance(size_t rows, std::vector<int32_t>& tokens) {
    SequenceSlice slice;
    slice.first_row = slice.first_output = static_cast<int32_t>(tokens.size());
    slice.row_count = static_cast<int32_t>(rows);
    slice.first_position = static_cast<int32_t>(done_);
    for (int group = groups_.full; group < groups_.count(); ++group) {
      for (int i = 0; i < groups_.FirstSeen(slice.first_position); ++i) GiveBack(group, i);
    }
    for (int group = 0; group < groups_.count(); ++group) {
      for (int i = slice.first_position / kBlockTokens; i < BlocksForTokens(slice.first_position + slice.row_count);
           ++i) {
        if (At(group, i) == kNoBlock) At(group, i) = pool_.Take();
      }
    }
    slice.blocks = blocks_;
    slice.group_stride = stride_;
    slice.output_rows = OutputRows::kAll;
    tokens.insert(tokens.end(), tokens_.begin() + static_cast<long>(done_),
                  tokens_.begin() + static_cast<long>(done_ + rows));
    done_ += rows;
    return slice;
  }

  // All KV that was computed, index by index.
  std::vector<uint8_t> TakeKv() {
    std::vector<uint8_t> kv;
    for (int i = 0; i < stride_; ++i) {
      for (int group = 0; group < groups_.count(); ++group) {
        GiveBack(group, i);
        const std::vector<uint8_t>& held = held_[static_cast<size_t>(group * stride_ + i)];
        kv.insert(kv.end(), held.begin(), held.end());
      }
    }
    return kv;
  }

 private:
  BlockId& At(int group, int i) { return blocks_[static_cast<size_t>(group * stride_ + i)]; }
  void GiveBack(int group, int i) {
    if (At(group, i) == kNoBlock) return;
    held_[static_cast<size_t>(group * stride_ + i)] = pool_.GiveBack(std::exchange(At(group, i), kNoBlock));
  }

  const std::vector<int32_t>& tokens_;
  const KvGroups groups_;
  TestBlocks& pool_;
  const int stride_;
  std::vector<BlockId> blocks_;
  std::vector<std::vector<uint8_t>> held_;
  size_t done_ = 0;
};

// Runs sequences together: in each step every unfinished one advances by a chunk that next_chunk(sequence) draws.
template <typename NextChunk>
std::vector<Outcome> RunSequences(ModelRunner& runner, const std::vector<std::vector<int32_t>>& sequences,
                                  NextChunk next_chunk, RandomSource& random,
                                  const MakeTestMemory& make = MakeHostTestMemory) {
  const KvGroups groups = runner.kv_layout().groups();
  int total = 0;
  for (const auto& s : sequences) total += groups.count() * BlocksForTokens(static_cast<int64_t>(s.size()));
  TestBlocks pool(runner, total, random, make);
  std::vector<TestSequence> running;
  for (const auto& s : sequences) running.emplace_back(s, groups, pool);
  std::vector<Outcome> outcomes(sequences.size());
  while (true) {
    std::vector<int32_t> tokens;
    std::vector<SequenceSlice> slices;
    std::vector<size_t> owners;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const size_t rows = std::min(static_cast<size_t>(next_chunk(i)), running[i].left());
      if (rows == 0) continue;
      slices.push_back(running[i].Advance(rows, tokens));
      owners.push_back(i);
    }
    if (slices.empty()) break;
    const size_t vocab = static_cast<size_t>(runner.vocab_size());
    std::vector<float> logits(tokens.size() * vocab);
    StepBatch batch;
    batch.tokens = tokens;
    batch.slices = slices;
    batch.output_count = static_cast<int32_t>(tokens.size());
    runner.Run(batch, {.logits = absl::MakeSpan(logits)});
    for (size_t s = 0; s < slices.size(); ++s) {
      const auto begin = logits.begin() + static_cast<long>(static_cast<size_t>(slices[s].first_row) * vocab);
      auto& all = outcomes[owners[s]].logits;
      all.insert(all.end(), begin, begin + static_cast<long>(static_cast<size_t>(slices[s].row_count) * vocab));
    }
  }
  for (size_t i = 0; i < sequences.size(); ++i) outcomes[i].kv = running[i].TakeKv();
  return outcomes;
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_RUN_SEQUENCES_H_
