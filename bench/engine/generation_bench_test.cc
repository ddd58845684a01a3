#include "bench/engine/generation_bench.h"

#include <algorithm>
#include <vector>

#include "bench/engine/scheduling_bench.h"
#include "common/process_memory.h"
#include "engine/testing/fake_model.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

// Counts the rows that it is asked to run.
class CountingModel final : public engine::FakeModel {
 public:
  CountingModel() : FakeModel({}) {}

  void Forward(const engine::StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) override {
    rows_ += static_cast<int64_t>(batch.tokens.size());
    most_rows_ = std::max(most_rows_, static_cast<int64_t>(batch.tokens.size()));
    if (batch.tokens.size() == batch.slices.size()) ++decode_steps_;
    FakeModel::Forward(batch, logits, hidden_states);
  }

  int64_t rows() const { return rows_; }
  int64_t most_rows() const { return most_rows_; }
  int64_t decode_steps() const { return decode_steps_; }

 private:
  int64_t rows_ = 0;
  int64_t most_rows_ = 0;
  int64_t decode_steps_ = 0;
};

TEST(BenchPrefill, RunsEveryPromptTokenOnceARoundAndOnceToWarmUp) {
  CountingModel model;
  const PrefillShape shape{.prompts = 3, .prompt_tokens = 100, .chunk_tokens = 64};
  const Figure figure = BenchPrefill(model, shape, {.rounds = 2});
  EXPECT_EQ(model.rows(), 3 * 3 * 100);
  EXPECT_LE(model.most_rows(), 64);
  EXPECT_GT(figure.value, 0);
  EXPECT_GE(figure.best, figure.value);
}

TEST(BenchDecode, TimesStepsWithOneRowAStream) {
  CountingModel model;
  const DecodeShape shape{.streams = 4, .context_tokens = 20, .steps = 30};
  const Figure figure = BenchDecode(model, shape, {.rounds = 2});
  EXPECT_EQ(model.rows(), 2 * 4 * (20 + 30));
  EXPECT_EQ(model.decode_steps(), 2 * 30);
  EXPECT_GT(figure.value, 0);
}

// The prompts take several steps, in which the first streams decode already.
TEST(BenchDecode, FitsStreamsWhosePromptsTakeManySteps) {
  CountingModel model;
  const DecodeShape shape{.streams = 7, .context_tokens = 300, .steps = 5};
  BenchDecode(model, shape, {.rounds = 1});
  EXPECT_EQ(model.decode_steps(), 5);
  EXPECT_LE(model.most_rows(), DecodeChunkTokens(7));
}

TEST(BenchDecode, FitsMoreStreamsThanAStepPrefills) {
  CountingModel model;
  BenchDecode(model, {.streams = 700, .context_tokens = 3, .steps = 2}, {.rounds = 1});
  EXPECT_GE(model.decode_steps(), 2);
}

TEST(MeasureMemory, CountsThePoolAndWhatTheProcessHolds) {
  CountingModel model;
  const MemoryUse use = MeasureMemory(model, {.streams = 2, .context_tokens = 3, .steps = 2}, 1);
  EXPECT_EQ(use.kv_pool_bytes % static_cast<int64_t>(model.kv_layout().block_bytes()), 0);
  EXPECT_GE(use.kv_pool_bytes, 2 * static_cast<int64_t>(model.kv_layout().block_bytes()));
  const int64_t before = ResidentBytesBesidesFiles();
  const std::vector<char> held(64 << 20, 1);
  // Without this use a compiler may leave the vector out.
  asm volatile("" : : "r"(held.data()) : "memory");
  EXPECT_GE(ResidentBytesBesidesFiles() - before, static_cast<int64_t>(held.size()) * 9 / 10);
}

TEST(BenchScheduling, MeasuresBothVocabularies) {
  const std::vector<Figure> figures = BenchScheduling({.sequences = 8, .steps = 5, .vocab_size = 500});
  ASSERT_EQ(figures.size(), 2u);
  for (const Figure& figure : figures) {
    EXPECT_GT(figure.value, 0);
    EXPECT_LE(figure.best, figure.value);
  }
}

}  // namespace
}  // namespace baton::bench
