// What a step of the CUDA runner gives: tokens, logits, hidden states; and its pool.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "engine/cuda/kernels/testing/digest_reference.h"
#include "gtest/gtest.h"
#include "modelfile/model_file.h"
#include "tests/cuda/small_models.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::engine::cuda {
namespace {

TEST(CudaRunner, ChoosesOnTheDeviceAndOnTheHostWhatASamplerChooses) {
  const auto file = MakeSyntheticModel(Small());
  SeededRandom random(kSeed);
  constexpr int kRows = 6;
  const std::vector<int32_t> prompt = RandomTokens(random, kRows, Small().vocab_size);
  const size_t vocab = static_cast<size_t>(Small().vocab_size);
  const SamplingParams greedy;
  const SamplingParams drawn{.temperature = 1.0f, .seed = kSeed};
  const SamplingParams cut{.temperature = 0.7f, .top_k = 9, .top_p = 0.8f, .seed = kSeed + 1};
  const SamplingParams biased{.logit_bias = {{.token = 3, .bias = 100.0f}}};
  const SamplingParams scored{.temperature = 1.2f, .min_p = 0.1f, .logprobs = 2};
  PromptLogprob of_prompt;
  const int32_t outputs[] = {1, 2, 3};
  const std::vector<TokenChoice> choices = {
      {.sampling = &greedy}, {.sampling = &drawn, .context = {.outputs = outputs}},
      {.sampling = &biased}, {.sampling = &scored},
      {.sampling = &cut},    {.score = &of_prompt, .scored_token = 5, .scored_top = 1},
  };
  const auto roomy = LoadCuda(*file, {.max_rows = kRows});
  const std::vector<float> want = OneSequence(*roomy, prompt).Logits(0, kRows);
  // The host has room for the logits of all rows, of four, and of one.
  for (const size_t room : {size_t{kRows}, size_t{4}, size_t{0}}) {
    const auto runner = LoadCuda(*file, {.max_rows = kRows, .host_logits_bytes = room * vocab * sizeof(float)});
    OneSequence sequence(*runner, prompt);
    EXPECT_EQ(sequence.Logits(0, kRows), want);
    std::vector<float> logits = want;
    std::vector<OutputToken> tokens(kRows);
    sequence.Run(0, kRows, choices, {.tokens = absl::MakeSpan(tokens)});
    Sampler sampler(runner->vocab_size());
    for (size_t row = 0; row < kRows; ++row) {
      const absl::Span<float> of_row = absl::MakeSpan(logits).subspan(row * vocab, vocab);
      if (choices[row].score != nullptr) {
        EXPECT_EQ(of_prompt, ScoreToken(5, 1, of_row));
      } else {
        EXPECT_EQ(tokens[row], sampler.Sample(*choices[row].sampling, choices[row].context, of_row))
            << "row " << row << " with room for " << room;
      }
    }
  }
}

TEST(CudaRunner, DrawsTheSameTokensInAStepThatIsAGraph) {
  const auto file = MakeSyntheticModel(Small());
  SeededRandom random(kSeed);
  const auto runner = LoadCuda(*file, {.max_rows = 1});
  OneSequence sequence(*runner, RandomTokens(random, 1, runner->vocab_size()));
  const std::vector<float> logits = sequence.Logits(0, 1);
  Sampler sampler(runner->vocab_size());
  // Each temperature twice: the second time its graph is there.
  for (const float temperature : {0.0f, 0.9f, 0.0f, 0.9f}) {
    for (const uint64_t seed : {kSeed, kSeed + 1}) {
      const SamplingParams params{.temperature = temperature, .seed = seed};
      const TokenChoice choice{.sampling = &params};
      OutputToken token;
      sequence.Run(0, 1, absl::MakeConstSpan(&choice, 1), {.tokens = absl::MakeSpan(&token, 1)});
      std::vector<float> own = logits;
      EXPECT_EQ(token, sampler.Sample(params, {}, absl::MakeSpan(own))) << temperature << ", seed " << seed;
    }
  }
  EXPECT_EQ(runner->graphs(), 2u);
}

TEST(CudaRunner, ChoosesOnTheHostWhereTheVocabularyIsNoMultipleOf16) {
  SyntheticSpec spec = Small();
  spec.vocab_size = 72;
  const auto file = MakeSyntheticModel(spec);
  SeededRandom random(kSeed);
  const auto runner = LoadCuda(*file, {.max_rows = 4});
  OneSequence sequence(*runner, RandomTokens(random, 4, spec.vocab_size));
  const std::vector<float> logits = sequence.Logits(0, 4);
  const SamplingParams greedy;
  const std::vector<TokenChoice> choices(4, {.sampling = &greedy});
  std::vector<OutputToken> tokens(4);
  sequence.Run(0, 4, choices, {.tokens = absl::MakeSpan(tokens)});
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(tokens[row].token, ArgMax(absl::MakeConstSpan(logits).subspan(row * 72, 72))) << row;
  }
}

TEST(CudaRunner, HiddenStatesComeWithoutLogits) {
  const auto file = MakeSyntheticModel(Small());
  SeededRandom random(kSeed);
  const auto runner = LoadCuda(*file, {.max_rows = 8});
  OneSequence sequence(*runner, RandomTokens(random, 8, runner->vocab_size()));
  const auto cpu = Load(*file, {.numerics = Numerics::kFp32, .threads = 1, .max_rows = 8});
  std::vector<float> hidden(static_cast<size_t>(8 * runner->hidden_size()));
  sequence.Run(0, 8, {}, {.hidden_states = absl::MakeSpan(hidden)});
  EXPECT_TRUE(std::all_of(hidden.begin(), hidden.end(), [](float x) { return std::isfinite(x); }));
  EXPECT_TRUE(std::any_of(hidden.begin(), hidden.end(), [](float x) { return std::fabs(x) > 0.1f; }));
}

// Without the interpreter's checks, which would make minutes of it.
TEST(CudaRunner, KnowsTheCapitalOfFrance) {
  const auto path = modelfile::ResolveModel(modelfile::kDefaultModel);
  if (!path.ok() || !std::filesystem::exists(*path)) GTEST_SKIP() << "the default model is not in the store";
  const auto file = modelfile::OpenModelFile(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  const ptx::Options checked = ptx::GetOptions();
  ptx::SetOptions({.host_threads = 2, .check_uninitialized = false, .check_shared_races = false});
  {
    const auto runner = LoadCuda(**file, {.max_rows = 5});
    // "The capital of France is"
    OneSequence sequence(*runner, {504, 3575, 282, 4649, 314});
    const SamplingParams greedy;
    const std::vector<TokenChoice> choices(5, {.sampling = &greedy});
    std::vector<OutputToken> tokens(5);
    sequence.Run(0, 5, choices, {.tokens = absl::MakeSpan(tokens)});
    EXPECT_EQ(tokens.back().token, 7042) << "not Paris";
  }
  ptx::SetOptions(checked);
}

TEST(CudaRunner, ZeroesRowsOfABlockAndNothingElse) {
  const auto file = MakeSyntheticModel(Small());
  SeededRandom random(kSeed);
  const auto runner = LoadCuda(*file, {.max_rows = 32});
  OneSequence sequence(*runner, RandomTokens(random, 32, runner->vocab_size()));
  sequence.Logits(0, 32);
  const std::vector<uint8_t> before = sequence.memory().Read(1);
  const std::vector<uint8_t> other = sequence.memory().Read(0);
  runner->ZeroRows(1, 5);
  // Behind it on the stream.
  sequence.Logits(0, 1);
  const std::vector<uint8_t> after = sequence.memory().Read(1);
  const size_t row_bytes = static_cast<size_t>(Small().head_dim) * 2;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool zeroed = i / row_bytes % kBlockTokens >= 5;
    ASSERT_EQ(after[i], zeroed ? 0 : before[i]) << i;
  }
  EXPECT_EQ(sequence.memory().Read(0), other);
}

TEST(CudaRunner, APoolZeroesBlocksAndTakesTheirDigestsOnTheDevice) {
  const auto file = MakeSyntheticModel(Small());
  SeededRandom random(kSeed);
  const auto runner = LoadCuda(*file, {.max_rows = 32});
  OneSequence sequence(*runner, RandomTokens(random, 32, runner->vocab_size()));
  sequence.Logits(0, 32);
  KvPool& pool = sequence.memory().pool();
  EXPECT_EQ(pool.memory().kind, MemoryKind::kDevice);
  const std::vector<uint8_t> bytes = sequence.memory().Read(1);
  EXPECT_EQ(pool.Digest(1), DefinedDigest(bytes));
  pool.Zero(1);
  EXPECT_EQ(sequence.memory().Read(1), std::vector<uint8_t>(bytes.size(), 0));
  EXPECT_NE(sequence.memory().Read(0), std::vector<uint8_t>(bytes.size(), 0));
}

TEST(CudaRunner, APoolInARegionHasItsFirstBlocksAndRoomBehindThem) {
  const auto file = MakeSyntheticModel(Small());
  const auto runner = LoadCuda(*file, {.max_rows = 32});
  const size_t block_bytes = runner->kv_layout().block_bytes();
  constexpr int kBlocks = 4;
  const size_t bytes = static_cast<size_t>(kBlocks + runner->spare_blocks()) * block_bytes;
  MemoryAccess& memory = *runner->memory();
  const absl::StatusOr<uint8_t*> region = memory.Allocate(bytes);
  ASSERT_TRUE(region.ok()) << region.status();
  const auto pool = runner->MakeKvPool(kBlocks, absl::MakeSpan(*region, bytes));
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->memory().base, *region);
  EXPECT_EQ((*pool)->block_count(), kBlocks);
  const std::vector<uint8_t> zeros(block_bytes);
  EXPECT_EQ((*pool)->Digest(3), DefinedDigest(zeros));
  // What a transport brings is in the pool.
  const std::vector<uint8_t> brought(block_bytes, 0x5a);
  const auto stream = memory.CreateStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(memory.CopyIn(*region + 3 * block_bytes, brought, *stream), absl::OkStatus());
  EXPECT_EQ(memory.Synchronize(*stream), absl::OkStatus());
  EXPECT_EQ((*pool)->Digest(3), DefinedDigest(brought));
  memory.DestroyStream(*stream);
}

}  // namespace
}  // namespace baton::engine::cuda
