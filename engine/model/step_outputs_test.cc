// The outputs of a step of the CPU model: tokens, logits and hidden states.
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/kernels/aligned_buffer.h"
#include "engine/sampler.h"
#include "engine/testing/naive_transformer.h"
#include "engine/testing/synthetic_variants.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

// The rows of one sequence in a single step, with whatever output is asked for.
class OneStep {
 public:
  OneStep(ModelRunner& runner, std::vector<int32_t> tokens)
      : tokens_(std::move(tokens)),
        blocks_(static_cast<size_t>(runner.kv_layout().groups().count() * Stride())),
        memory_(blocks_.size() * runner.kv_layout().block_bytes()),
        pool_(absl::MakeSpan(memory_.data(), memory_.bytes()), runner.kv_layout().block_bytes()) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    slice_ = {.row_count = static_cast<int32_t>(tokens_.size()),
              .blocks = blocks_,
              .group_stride = Stride(),
              .output_rows = OutputRows::kAll,
              .first_output = 0};
    runner.SetKvPool(pool_);
  }

  StepBatch batch(absl::Span<const TokenChoice> choices = {}) const {
    return {.tokens = tokens_,
            .slices = absl::MakeConstSpan(&slice_, 1),
            .output_count = static_cast<int32_t>(tokens_.size()),
            .choices = choices};
  }

 private:
  int32_t Stride() const { return BlocksForTokens(static_cast<int64_t>(tokens_.size())); }

  const std::vector<int32_t> tokens_;
  std::vector<BlockId> blocks_;
  kernels::AlignedBuffer memory_;
  HostKvPool pool_;
  SequenceSlice slice_;
};

TEST(CpuModel, ChoosesTheTokensThatASamplerDrawsFromItsLogits) {
  const auto file = MakeSyntheticModel({});
  SeededRandom random(kSeed);
  for (const int threads : {1, 2, 3}) {
    for (const int count : {1, 2, 50}) {
      const auto runner = Load(*file, {.threads = threads, .max_rows = 50});
      const OneStep step(*runner, RandomTokens(random, count, runner->vocab_size()));
      const size_t rows = static_cast<size_t>(count);
      const size_t vocab = static_cast<size_t>(runner->vocab_size());
      const SamplingParams sampling{.temperature = 1.0f, .seed = kSeed};
      std::vector<TokenChoice> choices(rows, {.sampling = &sampling});
      std::vector<OutputToken> tokens(rows);
      std::vector<float> logits(rows * vocab);
      runner->Run(step.batch(choices), {.tokens = absl::MakeSpan(tokens), .logits = absl::MakeSpan(logits)});
      Sampler sampler(runner->vocab_size());
      for (size_t row = 0; row < rows; ++row) {
        const absl::Span<float> of_row = absl::MakeSpan(logits).subspan(row * vocab, vocab);
        EXPECT_EQ(tokens[row].token, sampler.Sample(sampling, {}, of_row).token) << threads << " threads, row " << row;
      }
    }
  }
}

TEST(CpuModel, HiddenStatesTimesTheHeadAreTheLogits) {
  for (const Variant& variant : Variants()) {
    const auto file = MakeSyntheticModel(variant.spec);
    SeededRandom random(kSeed);
    constexpr size_t kRows = 20;
    const auto runner = Load(*file, {.numerics = Numerics::kFp32, .threads = 2, .max_rows = kRows});
    const OneStep step(*runner, RandomTokens(random, kRows, runner->vocab_size()));
    const size_t width = static_cast<size_t>(runner->hidden_size());
    std::vector<float> hidden(kRows * width), logits(kRows * static_cast<size_t>(runner->vocab_size()));
    runner->Run(step.batch(), {.logits = absl::MakeSpan(logits), .hidden_states = absl::MakeSpan(hidden)});
    double error = 0, size = 0;
    for (size_t row = 0; row < kRows; ++row) {
      const auto begin = hidden.begin() + static_cast<ptrdiff_t>(row * width);
      const NaiveVector want = NaiveProduct(*file, "token_embd.weight", {begin, begin + static_cast<ptrdiff_t>(width)});
      for (size_t i = 0; i < want.size(); ++i) {
        const double difference = logits[row * want.size() + i] - want[i];
        error += difference * difference;
        size += want[i] * want[i];
      }
    }
    EXPECT_LT(std::sqrt(error / size), 2e-6) << variant.name;
  }
}

TEST(CpuModel, HiddenStatesHaveTheSameBitsWithoutLogitsAndInAnyBatch) {
  const auto file = MakeSyntheticModel({});
  SeededRandom random(kSeed);
  // More than a few rows take another path through the runner.
  constexpr int kRows = 21;
  const std::vector<int32_t> tokens = RandomTokens(random, kRows, SyntheticSpec().vocab_size);
  const auto run = [&](Numerics numerics, int threads, int rows, bool with_logits) {
    const auto runner = Load(*file, {.numerics = numerics, .threads = threads, .max_rows = kRows});
    const OneStep step(*runner, {tokens.begin(), tokens.begin() + rows});
    std::vector<float> hidden(static_cast<size_t>(rows * runner->hidden_size()));
    std::vector<float> logits(with_logits ? static_cast<size_t>(rows * runner->vocab_size()) : 0);
    runner->Run(step.batch(), {.logits = absl::MakeSpan(logits), .hidden_states = absl::MakeSpan(hidden)});
    return hidden;
  };
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFp32}) {
    const std::vector<float> want = run(numerics, 1, kRows, true);
    for (const int threads : {1, 3}) {
      for (const int rows : {1, 3, kRows}) {
        const std::vector<float> got = run(numerics, threads, rows, false);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
            << threads << " threads, " << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine
