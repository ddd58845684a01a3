// An engine over a fake model and its own pool, for tests.
#ifndef BATON_ENGINE_TESTING_CHECKED_ENGINE_H_
#define BATON_ENGINE_TESTING_CHECKED_ENGINE_H_

#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/check.h"
#include "engine/engine.h"
#include "engine/testing/fake_model.h"
#include "gtest/gtest.h"

namespace baton::engine {

// Aborts when a step writes a block that another slice of the step refers to, runs more rows than it may, ends a chunk
// inside a block, or when a slice has more blocks than its rows see.
class CheckedModel final : public FakeModel {
 public:
  CheckedModel(const FakeModelOptions& options, int32_t max_rows) : FakeModel(options), max_rows_(max_rows) {}

  void Forward(const StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) override {
    BATON_CHECK(static_cast<int32_t>(batch.tokens.size()) <= max_rows_) << batch.tokens.size();
    std::map<BlockId, int> referring;
    for (const SequenceSlice& slice : batch.slices) {
      for (BlockId block : slice.blocks) ++referring[block];
    }
    referring.erase(kNoBlock);
    for (const SequenceSlice& slice : batch.slices) {
      const int32_t end = slice.first_position + slice.row_count;
      BATON_CHECK(ChoosesToken(batch, slice) || end % kBlockTokens == 0) << "a chunk ends at " << end;
      BATON_CHECK(slice.row_class == RowClass::kPrefill || slice.row_count == 1) << slice.row_count << " decode rows";
      CheckBlocks(slice, BlocksForTokens(end), referring);
    }
    rows_ += static_cast<int64_t>(batch.tokens.size());
    FakeModel::Forward(batch, logits, hidden_states);
  }

  // Each call on a thread of its own.
  void ForEach(int count, absl::FunctionRef<void(int)> fn) override {
    std::vector<std::thread> threads;
    for (int i = 1; i < count; ++i) threads.emplace_back(fn, i);
    if (count > 0) fn(0);
    for (std::thread& thread : threads) thread.join();
  }

  // Rows run so far.
  int64_t rows() const { return rows_; }

 private:
  // Whether the slice ends with the last token of its sequence.
  static bool ChoosesToken(const StepBatch& batch, const SequenceSlice& slice) {
    if (slice.output_rows != OutputRows::kAll) return slice.output_rows == OutputRows::kLast;
    return batch.choices[static_cast<size_t>(slice.first_output + slice.row_count - 1)].sampling != nullptr;
  }

  void CheckBlocks(const SequenceSlice& slice, int32_t end, const std::map<BlockId, int>& referring) const {
    const KvGroups groups = kv_layout().groups();
    BATON_CHECK(static_cast<int>(slice.blocks.size()) == (groups.count() - 1) * slice.group_stride + end);
    for (int32_t group = 0; group < groups.count(); ++group) {
      const int32_t first_seen = group < groups.full ? 0 : groups.FirstSeen(slice.first_position);
      for (int32_t i = 0; i < end; ++i) {
        const BlockId block = slice.blocks[static_cast<size_t>(group * slice.group_stride + i)];
        BATON_CHECK((block == kNoBlock) == (i < first_seen)) << "group " << group << ", block " << i;
        if (i < slice.first_position / kBlockTokens) continue;
        BATON_CHECK(referring.at(block) == 1) << "a shared block is written";
      }
    }
  }

  const int32_t max_rows_;
  int64_t rows_ = 0;
};

// Aborts when a block is zeroed, or its digest taken, while a step in flight writes it.
class WatchedKvPool final : public KvPool {
 public:
  // The model outlives the pool.
  WatchedKvPool(absl::Span<uint8_t> memory, size_t block_bytes, const FakeModel& model)
      : KvPool({.kind = MemoryKind::kHost, .base = memory.data(), .bytes = memory.size()}, block_bytes),
        blocks_(memory, block_bytes),
        model_(model) {}

 private:
  void DoZero(size_t offset) override { blocks_.Zero(Watched(offset)); }
  void DoDigests(absl::Span<const size_t> offsets, absl::Span<Digest128> digests) const override {
    for (size_t i = 0; i < offsets.size(); ++i) digests[i] = blocks_.Digest(Watched(offsets[i]));
  }

  BlockId Watched(size_t offset) const {
    const BlockId block = static_cast<BlockId>(offset / block_bytes());
    BATON_CHECK(!model_.Writes(block)) << "block " << block << " is touched while a step in flight writes it";
    return block;
  }

  HostKvPool blocks_;
  const FakeModel& model_;
};

class TestEngine {
 public:
  explicit TestEngine(int32_t block_count, const EngineOptions& options = {},
                      const FakeModelOptions& model_options = {})
      : model(model_options, options.chunk_tokens + options.max_sequences),
        memory(static_cast<size_t>(block_count) * model.kv_layout().block_bytes(), 0xa5),
        pool(absl::MakeSpan(memory), model.kv_layout().block_bytes(), model),
        engine(options, model, pool, PrefixNames({1, 2}), &work) {}

  // Whether the engine has work. Asked more often than the work of any test needs, it fails the test and says no, so
  // that an engine that makes no progress does not make the test hang.
  bool HasWork() {
    constexpr int kMaxAnswers = 100'000;
    if (++answers_ <= kMaxAnswers) return engine.HasWork();
    ADD_FAILURE() << "the engine makes no progress";
    return false;
  }

  absl::Span<uint8_t> Block(BlockId block) {
    BATON_CHECK(!model.Writes(block)) << "block " << block << " is touched while a step in flight writes it";
    const size_t bytes = model.kv_layout().block_bytes();
    return absl::MakeSpan(memory).subspan(static_cast<size_t>(block) * bytes, bytes);
  }

  CheckedModel model;
  std::vector<uint8_t> memory;
  WatchedKvPool pool;
  WorkNote work;
  Engine engine;

 private:
  int answers_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_CHECKED_ENGINE_H_
