#include <cmath>
#include <limits>
#include <numeric>

#include "engine/kernels/half.h"
#include "engine/kernels/kernel_test_util.h"

namespace baton::engine::kernels {
namespace {

class AttentionKernels : public EveryTable {};

INSTANTIATE_TEST_SUITE_P(Tables, AttentionKernels, AllTables(), TableName);

constexpr int kBlock = 16;

struct Shape {
  int head_dim;
  int group;
  int tokens;
  int window = 0;
};

// One KV head's cache over shuffled blocks, with the queries of its last tokens. Slots beyond `tokens` hold NaN.
class Cache {
 public:
  Cache(const Shape& shape, bool bf16, RandomSource& random)
      : shape_(shape),
        bf16_(bf16),
        element_(bf16 ? 2 : 4),
        blocks_(static_cast<size_t>((shape.tokens + kBlock - 1) / kBlock)) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    for (size_t i = blocks_.size(); i > 1; --i) std::swap(blocks_[i - 1], blocks_[random.Below(i)]);
    head_bytes_ = static_cast<size_t>(kBlock * shape.head_dim) * element_;
    pool_ = AlignedBuffer(blocks_.size() * 2 * head_bytes_);
    std::memset(pool_.data(), 0xff, pool_.bytes());
    const size_t values = static_cast<size_t>(shape.tokens * shape.head_dim);
    k = RandomFloats(random, values, 2.0f);
    v = RandomFloats(random, values, 2.0f);
    q = RandomFloats(random, values * shape.group, 2.0f);
    // Some denormals, which count as zero.
    for (size_t i = 0; i < values; i += 97) k[i] = v[i] = 1e-39f;
    if (bf16) {
      for (auto* x : {&k, &v, &q}) {
        for (float& y : *x) y = Bf16ToFloat(FloatToBf16(y));
      }
    }
    for (int t = 0; t < shape.tokens; ++t) {
      for (int d = 0; d < shape.head_dim; ++d) Put(t, d);
    }
    for (const float x : q) {
      const uint16_t half = FloatToBf16(x);
      const auto* const p = bf16 ? reinterpret_cast<const uint8_t*>(&half) : reinterpret_cast<const uint8_t*>(&x);
      query_.insert(query_.end(), p, p + element_);
    }
  }

  // Output of query rows [first, first + rows): [rows][group][head_dim].
  std::vector<float> Run(const KernelTable& table, int first, int rows) const {
    const size_t width = static_cast<size_t>(shape_.group * shape_.head_dim);
    std::vector<float> out(static_cast<size_t>(rows) * width);
    AlignedBuffer scratch(AttentionScratchBytes(shape_.group, shape_.head_dim));
    std::memset(scratch.data(), 0xff, scratch.bytes());
    const AttentionCall call{.query_rows = rows,
                             .first_position = first,
                             .heads_per_kv = shape_.group,
                             .head_dim = shape_.head_dim,
                             .window = shape_.window,
                             .scale = 0.125f,
                             .query = query_.data() + static_cast<size_t>(first) * width * element_,
                             .query_stride = width * element_,
                             .keys = pool_.data(),
                             .values = pool_.data() + head_bytes_,
                             .block_stride = 2 * head_bytes_,
                             .blocks = blocks_.data(),
                             .out = out.data(),
                             .out_stride = width,
                             .scratch = scratch.data()};
    (bf16_ ? table.attention_bf16 : table.attention_f32)(call);
    return out;
  }

  double Naive(int row, int head, int d) const {
    const int begin = shape_.window == 0 ? 0 : std::max(0, row + 1 - shape_.window);
    std::vector<double> score(static_cast<size_t>(row + 1));
    double max = -1e300;
    for (int t = begin; t <= row; ++t) {
      double s = 0;
      for (int i = 0; i < shape_.head_dim; ++i) {
        s += static_cast<double>(q[static_cast<size_t>((row * shape_.group + head) * shape_.head_dim + i)]) *
             k[static_cast<size_t>(t * shape_.head_dim + i)];
      }
      score[static_cast<size_t>(t)] = s * 0.125;
      max = std::max(max, s * 0.125);
    }
    double sum = 0, value = 0;
    for (int t = begin; t <= row; ++t) {
      const double p = std::exp(score[static_cast<size_t>(t)] - max);
      sum += p;
      value += p * v[static_cast<size_t>(t * shape_.head_dim + d)];
    }
    return value / sum;
  }

  // Bytes of NaN over the tokens before `token`.
  void Forget(int token) {
    for (int t = 0; t < token; ++t) {
      for (int d = 0; d < shape_.head_dim; ++d) Put(t, d, true);
    }
  }

  std::vector<float> k, v, q;  // [tokens][head_dim], q: [tokens][group][head_dim]

 private:
  void Put(int t, int d, bool forget = false) {
    uint8_t* const block =
        pool_.data() + static_cast<size_t>(blocks_[static_cast<size_t>(t / kBlock)]) * 2 * head_bytes_;
    const int slot = t % kBlock;
    const int per_word = bf16_ ? 2 : 1;
    uint8_t* const key = block + ((d / per_word) * kBlock + slot) * 4 + d % per_word * 2;
    uint8_t* const value = block + head_bytes_ + (slot / per_word * shape_.head_dim + d) * 4 + slot % per_word * 2;
    const size_t at = static_cast<size_t>(t * shape_.head_dim + d);
    if (forget) {
      std::memset(key, 0xff, element_);
      std::memset(value, 0xff, element_);
      return;
    }
    const uint16_t k16 = FloatToBf16(k[at]), v16 = FloatToBf16(v[at]);
    std::memcpy(key, bf16_ ? static_cast<const void*>(&k16) : &k[at], element_);
    std::memcpy(value, bf16_ ? static_cast<const void*>(&v16) : &v[at], element_);
  }

  const Shape shape_;
  const bool bf16_;
  const size_t element_;
  std::vector<int32_t> blocks_;
  size_t head_bytes_ = 0;
  AlignedBuffer pool_;
  std::vector<uint8_t> query_;
};

constexpr Shape kShapes[] = {{64, 3, 600},      {64, 1, 40},       {32, 2, 273},      {128, 8, 70},
                             {96, 4, 259},      {16, 7, 33},       {80, 5, 258},      {256, 4, 290},
                             {64, 3, 600, 1},   {64, 2, 600, 2},   {32, 3, 600, 5},   {64, 1, 600, 16},
                             {32, 2, 600, 255}, {64, 3, 600, 256}, {32, 2, 600, 257}, {256, 4, 600, 300}};

TEST_P(AttentionKernels, AttentionEqualsTheDefinitionAtEveryEdge) {
  SeededRandom random(kSeed);
  for (const bool bf16 : {true, false}) {
    for (const Shape& shape : kShapes) {
      const Cache cache(shape, bf16, random);
      for (const int first : {0, 1, 7, 14, 15, 16, 31, 200, 248, 250, 254, 255, 256, 257, 510, 511, 512, 592}) {
        for (const int rows : {1, 2, 5, 8}) {
          if (first + rows > shape.tokens) continue;
          EXPECT_EQ(FirstDifference(cache.Run(table(), first, rows), cache.Run(kScalarKernels, first, rows)), -1)
              << "bf16 " << bf16 << " head_dim " << shape.head_dim << " group " << shape.group << " window "
              << shape.window << " first " << first << " rows " << rows;
        }
      }
    }
  }
}

TEST_P(AttentionKernels, ARowOfAttentionDoesNotDependOnItsTile) {
  SeededRandom random(kSeed);
  for (const bool bf16 : {true, false}) {
    for (const int window : {0, 1, 4, 7, 250, 258, 300, 512}) {
      const Shape shape{32, 3, 530, window};
      const Cache cache(shape, bf16, random);
      for (const int first : {0, 3, 250, 253, 508, 522}) {
        const std::vector<float> tile = cache.Run(table(), first, 8);
        for (int r = 0; r < 8; ++r) {
          const std::vector<float> alone = cache.Run(table(), first + r, 1);
          EXPECT_EQ(FirstDifference(&tile[static_cast<size_t>(r) * alone.size()], alone.data(), alone.size()), -1)
              << "bf16 " << bf16 << " window " << window << " row " << first + r;
        }
      }
    }
  }
}

TEST_P(AttentionKernels, TokensBeforeTheWindowNeverMatter) {
  SeededRandom random(kSeed);
  for (const bool bf16 : {true, false}) {
    for (const int window : {1, 8, 9, 40, 300}) {
      const Shape shape{32, 2, 600, window};
      Cache cache(shape, bf16, random);
      for (const int row : {310, 520, 557, 599}) {
        const std::vector<float> want = cache.Run(table(), row, 1);
        cache.Forget(row + 1 - window);
        EXPECT_EQ(FirstDifference(cache.Run(table(), row, 1), want), -1)
            << "bf16 " << bf16 << " window " << window << " row " << row;
      }
    }
  }
}

TEST_P(AttentionKernels, AttentionIsNearSoftmaxInDouble) {
  SeededRandom random(kSeed);
  for (const bool bf16 : {true, false}) {
    for (const Shape& shape : kShapes) {
      const Cache cache(shape, bf16, random);
      for (const int row : {0, 1, shape.tokens / 2, shape.tokens - 1}) {
        const std::vector<float> got = cache.Run(table(), row, 1);
        for (int h = 0; h < shape.group; ++h) {
          for (int d = 0; d < shape.head_dim; d += 7) {
            EXPECT_NEAR(got[static_cast<size_t>(h * shape.head_dim + d)], cache.Naive(row, h, d), bf16 ? 0.02 : 2e-5)
                << "bf16 " << bf16 << " row " << row;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine::kernels
