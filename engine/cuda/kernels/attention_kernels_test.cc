#include <numeric>

#include "engine/cuda/kernels/testing/attention_case.h"
#include "engine/cuda/kernels/testing/reference.h"

namespace baton::engine::cuda {
namespace {

constexpr uint64_t kAttentionSeed = 31415;

// The unit is an ulp of the weighted mean of the values' magnitudes. The kernel rounds each p to bf16 and then the
// output: either moves it by at most 2^-9 of that mean, which together is less than one ulp. All else is float.
constexpr double kAttentionUlps = 1;

void ExpectNear(const std::vector<Bf16>& got, const std::vector<float>& want, const std::vector<float>& magnitudes,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(InUlps(ToFloat(got[i]) - want[i], magnitudes[i], kBf16Bits), kAttentionUlps)
        << what << " at " << i << ": " << ToFloat(got[i]) << " and " << want[i];
  }
}

constexpr AttentionWay kWays[] = {AttentionWay::kPrefill, AttentionWay::kDecode, AttentionWay::kSplits};

void ExpectNear(const std::vector<Bf16>& got, const AttentionCase::Means& want, const std::string& what) {
  ExpectNear(got, want.values, want.magnitudes, what);
}

constexpr AttentionShape kShapes[] = {
    {.head_dim = 64, .heads = 3, .kv_heads = 1, .tokens = 40},
    {.head_dim = 16, .heads = 4, .kv_heads = 4, .tokens = 270, .groups = 2},
    {.head_dim = 32, .heads = 4, .kv_heads = 2, .tokens = 300, .window = 20},
    {.head_dim = 128, .heads = 8, .kv_heads = 1, .tokens = 35},
    {.head_dim = 256, .heads = 4, .kv_heads = 1, .tokens = 260, .window = 256},
    {.head_dim = 80, .heads = 5, .kv_heads = 1, .tokens = 21},
    {.head_dim = 16, .heads = 16, .kv_heads = 1, .tokens = 520, .window = 257},
};

TEST(CudaAttention, PrefillIsNearSoftmaxAndNearTheCpu) {
  for (const AttentionShape& shape : kShapes) {
    SeededRandom random(kAttentionSeed);
    AttentionCase c(shape, random);
    const int rows = std::min(shape.tokens, 18);
    const int first = shape.tokens - rows;
    const std::vector<Bf16> got = c.Prefill(first, rows);
    const AttentionCase::Means want = c.Softmax(first, rows);
    ExpectNear(got, want, "softmax, " + c.Name());
    ExpectNear(got, c.OnCpu(first, rows), want.magnitudes, "CPU, " + c.Name());
  }
}

TEST(CudaAttention, EveryWayGivesTheSameBits) {
  for (const AttentionShape& shape : kShapes) {
    SeededRandom random(kAttentionSeed);
    AttentionCase c(shape, random);
    const int rows = std::min(shape.tokens, 7);
    const std::vector<QueryRange> range = {{shape.tokens - rows, rows}};
    const std::vector<Bf16> want = c.Run(AttentionWay::kPrefill, range);
    EXPECT_EQ(FirstDifference(c.Run(AttentionWay::kDecode, range), want), -1) << c.Name();
    EXPECT_EQ(FirstDifference(c.Run(AttentionWay::kSplits, range), want), -1) << c.Name();
  }
}

TEST(CudaAttention, EveryHeadSizeAndNumberOfHeadsIsNearSoftmax) {
  SeededRandom random(kAttentionSeed);
  for (const int head_dim : {16, 32, 64, 128, 256}) {
    for (const int heads : {1, 2, 3, 4, 8, 16}) {
      AttentionCase c({.head_dim = head_dim, .heads = 2 * heads, .kv_heads = 2, .tokens = 262}, random);
      // Two warps and more of a large tile.
      const int rows = std::max(9, 36 / heads), first = 262 - rows;
      const std::vector<Bf16> got = c.Prefill(first, rows);
      ExpectNear(got, c.Softmax(first, rows), c.Name());
      EXPECT_EQ(FirstDifference(c.Run(AttentionWay::kSplits, {{first, rows}}), got), -1) << c.Name();
    }
  }
}

TEST(CudaAttention, ARowsBitsDoNotDependOnItsTile) {
  for (const int window : {0, 1, 7, 255, 256, 258}) {
    SeededRandom random(kAttentionSeed);
    AttentionCase c({.head_dim = 16, .heads = 2, .kv_heads = 1, .tokens = 519, .window = window}, random);
    for (const int first : {0, 240, 479}) {
      // A large tile of 32 rows and one of 8.
      const std::vector<Bf16> together = c.Prefill(first, 40);
      for (const int r : {0, 13, 31, 32, 39}) {
        const std::vector<Bf16> row(together.begin() + r * 32, together.begin() + (r + 1) * 32);
        for (const AttentionWay way : kWays) {
          EXPECT_EQ(FirstDifference(c.Run(way, {{first + r, 1}}), row), -1)
              << "window " << window << " row " << first + r << " way " << static_cast<int>(way);
        }
      }
      EXPECT_EQ(FirstDifference(c.Run(AttentionWay::kDecode, {{first, 40}}), together), -1) << "window " << window;
    }
  }
}

TEST(CudaAttention, EveryPositionAtTheBordersOfSplitsAndPages) {
  SeededRandom random(kAttentionSeed);
  AttentionCase c({.head_dim = 16, .heads = 2, .kv_heads = 1, .tokens = 514}, random);
  for (const int position : {0, 1, 7, 8, 15, 16, 63, 64, 255, 256, 257, 511, 512, 513}) {
    const std::vector<Bf16> got = c.Run(AttentionWay::kSplits, {{position, 1}});
    ExpectNear(got, c.Softmax(position, 1), "position " + std::to_string(position));
  }
}

TEST(CudaAttention, SeveralSequencesShareALaunch) {
  SeededRandom random(kAttentionSeed);
  AttentionCase c({.head_dim = 32, .heads = 4, .kv_heads = 2, .tokens = 290, .window = 0, .groups = 3}, random);
  const std::vector<QueryRange> ranges = {{289, 1}, {3, 5}, {256, 9}};
  std::vector<Bf16> want;
  for (const QueryRange& range : ranges) {
    const std::vector<Bf16> rows = c.Prefill(range.first, range.rows);
    want.insert(want.end(), rows.begin(), rows.end());
  }
  for (const AttentionWay way : kWays) EXPECT_EQ(FirstDifference(c.Run(way, ranges), want), -1);
}

TEST(CudaAttention, PagesBeforeTheWindowAndBehindTheRowAreNotRead) {
  for (const int window : {1, 9, 40, 300}) {
    SeededRandom random(kAttentionSeed);
    AttentionCase c({.head_dim = 16, .heads = 2, .kv_heads = 2, .tokens = 600, .window = window}, random);
    for (const auto& [row, rows] : {QueryRange{310, 1}, {557, 1}, {300, 45}}) {
      const std::vector<Bf16> want = c.Prefill(row, rows);
      c.Forget(row + 1 - window, row + rows - 1);
      for (const AttentionWay way : kWays) {
        EXPECT_EQ(FirstDifference(c.Run(way, {{row, rows}}), want), -1)
            << "window " << window << " row " << row << " way " << static_cast<int>(way);
      }
      c.Remember();
    }
  }
}

TEST(CudaAttention, ANanScoreSpoilsItsRowAlone) {
  SeededRandom random(kAttentionSeed);
  AttentionCase c({.head_dim = 16, .heads = 2, .kv_heads = 1, .tokens = 20}, random);
  const std::vector<Bf16> before = c.Prefill(12, 8);
  c.SetQuery(15, 1, 3, 0x7fc0);
  const std::vector<Bf16> after = c.Prefill(12, 8);
  for (size_t i = 0; i < after.size(); ++i) {
    if (i / 16 == 3 * 2 + 1) {
      EXPECT_TRUE(std::isnan(ToFloat(after[i]))) << i;
    } else {
      EXPECT_EQ(after[i], before[i]) << i;
    }
  }
}

// A scale of which scale * log2 e is 1: whole scores give powers of two.
float ScaleOfWholePowers() {
  float scale = 0.6931471f;
  while (scale * 1.4426950408889634f < 1.0f) scale = std::nextafter(scale, 1.0f);
  return scale;
}

// The sum of a split by its definition, of p = 2^-x.
float DefinedSum(const std::vector<float>& x) {
  float total = 0.0f;
  for (size_t quarter = 0; quarter < kSplitTokens; quarter += kSplitTokens / 4) {
    std::vector<float> lanes(16);
    for (size_t i = quarter; i < std::min(quarter + kSplitTokens / 4, x.size()); ++i) {
      lanes[i % 16] = lanes[i % 16] + std::exp2(-x[i]);
    }
    total = quarter == 0 ? FoldTree(lanes) : total + FoldTree(lanes);
  }
  return total;
}

TEST(CudaAttention, MaximumAndSumOfASplitEqualTheirDefinitionBitForBit) {
  ASSERT_EQ(ScaleOfWholePowers() * 1.4426950408889634f, 1.0f);
  SeededRandom random(kAttentionSeed);
  AttentionCase c({.head_dim = 16, .heads = 1, .kv_heads = 1, .tokens = 431, .scale = ScaleOfWholePowers()}, random);
  std::vector<float> x;
  for (int t = 0; t < 431; ++t) {
    x.push_back(static_cast<float>(random.Below(27)));
    for (int d = 0; d < 16; ++d) {
      c.SetQuery(t, 0, d, ToBf16(d == 11 ? 1.0f : 0.0f));
      c.SetKey(t, 0, d, ToBf16(d == 11 ? 2.0f - x.back() : 1.0f));
    }
  }
  for (const int position : {255, 430}) {
    const std::vector<float> partial = c.Partial(position);
    for (size_t split = 0; split <= static_cast<size_t>(position) / kSplitTokens; ++split) {
      const size_t begin = split * kSplitTokens,
                   end = std::min(begin + kSplitTokens, static_cast<size_t>(position) + 1);
      std::vector<float> seen(x.begin() + static_cast<ptrdiff_t>(begin), x.begin() + static_cast<ptrdiff_t>(end));
      const float least = *std::min_element(seen.begin(), seen.end());
      for (float& y : seen) y -= least;
      EXPECT_EQ(partial[split * 18 + 16], 2.0f - least) << "position " << position << " split " << split;
      EXPECT_EQ(partial[split * 18 + 17], DefinedSum(seen)) << "position " << position << " split " << split;
    }
  }
}

// Scores beyond any p's range: the maximum keeps every p at most 1.
TEST(CudaAttention, LargeScoresDoNotOverflow) {
  SeededRandom random(kAttentionSeed);
  AttentionCase c({.head_dim = 64, .heads = 2, .kv_heads = 1, .tokens = 262, .limit = 100.0f}, random);
  ExpectNear(c.Prefill(254, 8), c.Softmax(254, 8), "large scores");
  EXPECT_EQ(FirstDifference(c.Run(AttentionWay::kSplits, {{254, 8}}), c.Prefill(254, 8)), -1);
}

}  // namespace
}  // namespace baton::engine::cuda
