// Whole models on the kernels that nvcc made of engine/cuda/kernels, run by the interpreter of PTX.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/cuda/block_digest.h"
#include "engine/testing/run_sequences.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/small_models.h"

namespace baton::engine::cuda {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Below this margin of the CPU's largest logit, bf16 may choose another token.
constexpr float kMargin = 0.05f;
// Weights made at random give some models logits far below 1: there the same share of their size is margin enough.
constexpr float kRelativeMargin = 0.05f;

bool SameBits(const Outcome& a, const Outcome& b) {
  return a.kv == b.kv && a.logits.size() == b.logits.size() &&
         std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
}

// Every chunk of every sequence has `rows` rows.
std::vector<Outcome> RunInChunks(ModelRunner& runner, const std::vector<std::vector<int32_t>>& sequences, int rows,
                                 RandomSource& random, const MakeTestMemory& make = MakeDeviceTestMemory) {
  return RunSequences(
      runner, sequences, [rows](size_t) { return rows; }, random, make);
}

// The two largest logits' difference, and the token.
std::pair<float, int32_t> MarginOf(absl::Span<const float> logits) {
  const int32_t token = ArgMax(logits);
  float second = -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (static_cast<int32_t>(i) != token) second = std::max(second, logits[i]);
  }
  return {logits[static_cast<size_t>(token)] - second, token};
}

float RootMeanSquare(absl::Span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += value * value;
  return static_cast<float>(std::sqrt(sum / static_cast<double>(values.size())));
}

TEST(CudaRunner, ChoosesTheTokensOfTheCpusReferenceWhereverItsMarginIsClear) {
  for (const Variant& variant : Variants()) {
    const auto file = MakeSyntheticModel(variant.spec);
    SeededRandom random(kSeed);
    const std::vector<std::vector<int32_t>> tokens = {RandomTokens(random, 40, variant.spec.vocab_size)};
    const auto cpu = Load(*file, {.numerics = Numerics::kFp32, .threads = 1, .max_rows = 64});
    const Outcome want = RunInChunks(*cpu, tokens, 40, random, MakeHostTestMemory).front();
    const auto cuda = LoadCuda(*file, {.max_rows = 64});
    const Outcome got = RunInChunks(*cuda, tokens, 40, random).front();
    ASSERT_EQ(got.logits.size(), want.logits.size());
    const size_t vocab = static_cast<size_t>(variant.spec.vocab_size);
    int compared = 0;
    double error = 0, size = 0;
    for (size_t row = 0; row < tokens[0].size(); ++row) {
      const auto of_row = [&](const Outcome& outcome) {
        return absl::MakeConstSpan(outcome.logits).subspan(row * vocab, vocab);
      };
      for (size_t i = 0; i < vocab; ++i) {
        error += std::pow(of_row(got)[i] - of_row(want)[i], 2);
        size += std::pow(of_row(want)[i], 2);
      }
      const auto [margin, token] = MarginOf(of_row(want));
      if (margin <= std::min(kMargin, kRelativeMargin * RootMeanSquare(of_row(want)))) continue;
      ++compared;
      EXPECT_EQ(ArgMax(of_row(got)), token) << variant.name << ", row " << row << ", margin " << margin;
    }
    EXPECT_GT(compared, 20) << variant.name;
    EXPECT_LT(std::sqrt(error / size), 0.02) << variant.name;
  }
}

TEST(CudaRunner, ARowsBitsDependOnItsOwnSequenceAlone) {
  for (const SyntheticSpec& spec : {Small(), SmallGemma()}) {
    const auto file = MakeSyntheticModel(spec);
    SeededRandom random(kSeed);
    std::vector<std::vector<int32_t>> sequences;
    for (const int length : {1, 5, 18, 40}) sequences.push_back(RandomTokens(random, length, spec.vocab_size));
    std::vector<Outcome> want;
    const auto alone = LoadCuda(*file, {.max_rows = 64, .graphs = false, .attention = AttentionPath::kWhole});
    for (const auto& sequence : sequences) want.push_back(RunInChunks(*alone, {sequence}, 40, random).front());

    for (const bool graphs : {false, true}) {
      for (const AttentionPath attention : {AttentionPath::kWhole, AttentionPath::kSplit}) {
        const auto runner = LoadCuda(*file, {.max_rows = 130, .graphs = graphs, .attention = attention});
        // Single rows are steps of graphs, 40 rows of four sequences are products of many rows.
        for (const int rows : {1, 7, 40}) {
          const std::vector<Outcome> got = RunInChunks(*runner, sequences, rows, random);
          for (size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(SameBits(got[i], want[i]))
                << (spec.gemma ? "gemma" : "llama") << ", graphs " << graphs << ", attention "
                << static_cast<int>(attention) << ", chunks of " << rows << ", sequence " << i;
          }
          // A new pool voids what was captured.
          EXPECT_EQ(runner->graphs() > 0, graphs && rows == 1);
        }
      }
    }
  }
}

TEST(CudaRunner, RowsBeyondTheFirstSplitHaveTheSameBitsInPiecesAsInOne) {
  for (SyntheticSpec spec : {Small(), SmallGemma()}) {
    spec.layers = 2;
    spec.sliding_window = spec.gemma ? 260 : 0;
    const auto file = MakeSyntheticModel(spec);
    SeededRandom random(kSeed);
    const std::vector<std::vector<int32_t>> sequences = {RandomTokens(random, 275, spec.vocab_size)};
    const auto whole = LoadCuda(*file, {.max_rows = 275, .attention = AttentionPath::kWhole});
    const Outcome want = RunInChunks(*whole, sequences, 275, random).front();
    const auto split = LoadCuda(*file, {.max_rows = 250, .attention = AttentionPath::kSplit});
    int step = 0;
    // The prompt, and then one row at a time.
    const Outcome got =
        RunSequences(
            *split, sequences, [&step](size_t) { return ++step == 1 ? 250 : 1; }, random, MakeDeviceTestMemory)
            .front();
    EXPECT_TRUE(SameBits(got, want)) << (spec.gemma ? "gemma" : "llama");
    // One for the splits of 256 tokens, one beyond.
    EXPECT_EQ(split->graphs(), 2u);
  }
}

TEST(CudaRunner, GoesOnWithTheSameBitsAfterItsKvHasMovedToOtherBlocks) {
  const auto file = MakeSyntheticModel(SmallGemma());
  SeededRandom random(kSeed);
  const auto runner = LoadCuda(*file, {.max_rows = 64});
  const std::vector<int32_t> tokens = RandomTokens(random, 40, runner->vocab_size());
  std::vector<std::vector<float>> logits;
  for (const bool moves : {false, true}) {
    OneSequence sequence(*runner, tokens);
    sequence.Logits(0, 33);
    if (moves) sequence.MoveBlocks();
    logits.push_back(sequence.Logits(33, 40));
  }
  EXPECT_EQ(std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * sizeof(float)), 0);
}

// The interpreter has done all of it when it is asked; only a GPU can be in the midst of the step.
TEST(CudaRunner, TheKvOfTheLayersThatItTellsOfIsInPlace) {
  for (SyntheticSpec spec : {Small(), SmallGemma()}) {
    spec.layers = 6;
    const auto file = MakeSyntheticModel(spec);
    SeededRandom random(kSeed);
    const auto runner = LoadCuda(*file, {.max_rows = 64});
    OneSequence sequence(*runner, RandomTokens(random, 40, spec.vocab_size));
    const auto read_all = [&sequence] {
      std::vector<std::vector<uint8_t>> blocks;
      for (const BlockId block : sequence.blocks()) blocks.push_back(sequence.memory().Read(block));
      return blocks;
    };
    sequence.Submit(0, 40);
    std::vector<std::pair<int32_t, std::vector<std::vector<uint8_t>>>> told;
    for (int32_t known = 0; (known = runner->AwaitLayers(known)) < spec.layers;) told.emplace_back(known, read_all());
    runner->Complete();
    const std::vector<std::vector<uint8_t>> want = read_all();
    EXPECT_EQ(told.size(), 5u);
    for (const auto& [layers, got] : told) {
      const std::vector<uint64_t> bytes = runner->kv_layout().BytesOfLayers(layers);
      for (size_t i = 0; i < want.size(); ++i) {
        const size_t begun = bytes[static_cast<size_t>(sequence.GroupOf(i))];
        EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), begun), 0) << layers << " layers, block " << i;
      }
    }
  }
}

TEST(CudaRunner, ItsFingerprintAndLayoutAreNoCpus) {
  const auto file = MakeSyntheticModel(Small());
  const auto runner = LoadCudaModel(*file, {.max_rows = 8}, TestDevice());
  ASSERT_TRUE(runner.ok()) << runner.status();
  const auto cpu = Load(*file, {.threads = 1, .max_rows = 8});
  EXPECT_NE((*runner)->kv_layout(), cpu->kv_layout());
  EXPECT_EQ((*runner)->kv_layout().block_bytes(), cpu->kv_layout().block_bytes());
  EXPECT_THAT((*runner)->fingerprint(), StartsWith(absl::StrCat("cuda-sm", TestDevice()->capability(),
                                                                "-bf16-v1/kv:2x2x32-bf16-v1001/weights:")));
  EXPECT_THAT((*runner)->fingerprint(), testing::Not(HasSubstr("probe:none")));
}

TEST(CudaRunner, APoolTakesOfTheDevicesMemoryWhatItIsSizedBy) {
  const auto file = MakeSyntheticModel(Small());
  const auto runner = LoadCuda(*file, {.max_rows = 8});
  const absl::StatusOr<DeviceMemory> before = runner->device().Memory();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_GT(before->own, 0U);
  constexpr int kBlocks = 5;
  const auto pool = runner->MakeKvPool(kBlocks, {});
  ASSERT_TRUE(pool.ok()) << pool.status();
  const absl::StatusOr<DeviceMemory> after = runner->device().Memory();
  ASSERT_TRUE(after.ok()) << after.status();
  // Two sums of a digest for each 16 KiB of the blocks that are taken together, and a block here is no longer.
  constexpr uint64_t kSumsBytes = 16 * BlockDigest::kMostTogether;
  const uint64_t taken =
      (kBlocks + static_cast<uint64_t>(runner->spare_blocks())) * runner->kv_layout().block_bytes() + kSumsBytes;
  EXPECT_EQ(after->total, before->total);
  // A GPU may have room for it in what is allocated already, and others may use it.
  if (RunsOnGpu()) return;
  EXPECT_EQ(after->own, before->own + taken);
  EXPECT_EQ(after->free, before->free - taken);
}

TEST(CudaRunner, RefusesShapesThatItsKernelsDoNotHave) {
  const auto error_of = [](const SyntheticSpec& spec) {
    const auto file = MakeSyntheticModel(spec);
    return CudaRunner::Load(*file, {}, TestDevice()).status();
  };
  SyntheticSpec wide = Small();
  wide.head_dim = 288;
  EXPECT_EQ(error_of(wide).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(error_of(wide).message()), HasSubstr("head dimension is 288"));
  SyntheticSpec grouped = Small();
  grouped.heads = 17;
  grouped.kv_heads = 1;
  EXPECT_THAT(std::string(error_of(grouped).message()), HasSubstr("17 heads share a KV head"));
}

TEST(CudaRunner, RefusesANanInFp8) {
  const auto file = MakeSyntheticModel({.layers = 1, .ffn = modelfile::TensorType::kF8E4M3});
  ASSERT_TRUE(CudaRunner::Load(*file, {}, TestDevice()).ok());
  // The model is this test's own.
  const_cast<uint8_t*>(file->Find("blk.0.ffn_down.weight")->data)[70] = 0xff;
  const absl::Status status = CudaRunner::Load(*file, {}, TestDevice()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor blk.0.ffn_down.weight has a NaN"));
}

}  // namespace
}  // namespace baton::engine::cuda
