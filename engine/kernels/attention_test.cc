#include <cmath>
#include <limits>
#include <numeric>

#include "common/kv_layout.h"
#include "engine/kernels/half.h"
#include "engine/testing/every_table.h"

namespace baton::engine::kernels {
namespace {

class AttentionKernels : public EveryTable {};

INSTANTIATE_TEST_SUITE_P(Tables, AttentionKernels, AllTables(), TableName);

struct Shape {
  int head_dim;
  int group;
  int tokens;
  int window = 0;
};

// One KV head's cache over shuffled blocks, with the queries of its last tokens. Slots beyond `tokens` hold NaN, or
// integers with a NaN for a scale.
class Cache {
 public:
  Cache(const Shape& shape, KvDtype dtype, RandomSource& random)
      : shape_(shape),
        layout_{.layers = 1, .kv_heads = 1, .head_dim = shape.head_dim, .dtype = dtype},
        query_element_(dtype == KvDtype::kF32 ? 4 : 2),
        blocks_(static_cast<size_t>(BlocksForTokens(shape.tokens))),
        pool_(blocks_.size() * layout_.block_bytes()) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    for (size_t i = blocks_.size(); i > 1; --i) std::swap(blocks_[i - 1], blocks_[random.Below(i)]);
    std::memset(pool_.data(), 0xff, pool_.bytes());
    const size_t values = static_cast<size_t>(shape.tokens * shape.head_dim);
    k = RandomFloats(random, values, 2.0f);
    v = RandomFloats(random, values, 2.0f);
    q = RandomFloats(random, values * shape.group, 2.0f);
    // Some denormals, which count as zero.
    for (size_t i = 0; i < values; i += 97) k[i] = v[i] = 1e-39f;
    if (dtype == KvDtype::kBf16) {
      for (auto* x : {&k, &v}) RoundBf16(*x);
    }
    if (dtype != KvDtype::kF32) RoundBf16(q);
    for (int t = 0; t < shape.tokens; ++t) {
      if (dtype == KvDtype::kInt8) {
        // One token has nothing to say, and so no scale; the others differ in size.
        Quantize(t, t == 3 ? 0.0f : 1.0f - t % 7 * 0.1f, k, false);
        Quantize(t, t == 3 ? 0.0f : 1.0f - t % 5 * 0.15f, v, true);
      }
      for (int d = 0; d < shape.head_dim && dtype != KvDtype::kInt8; ++d) Put(t, d);
    }
    for (const float x : q) {
      const uint16_t half = FloatToBf16(x);
      const void* const from = query_element_ == 2 ? static_cast<const void*>(&half) : &x;
      const auto* const p = static_cast<const uint8_t*>(from);
      query_.insert(query_.end(), p, p + query_element_);
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
                             .query = query_.data() + static_cast<size_t>(first) * width * query_element_,
                             .query_stride = width * query_element_,
                             .keys = pool_.data(),
                             .values = pool_.data() + layout_.head_part_bytes(),
                             .block_stride = layout_.block_bytes(),
                             .blocks = blocks_.data(),
                             .out = out.data(),
                             .out_stride = width,
                             .scratch = scratch.data()};
    AttentionOver(layout_.dtype, table)(call);
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
      for (const bool value : {false, true}) {
        for (int d = 0; d < shape_.head_dim; ++d) std::memset(Slot(t, d, value), 0xff, element_bytes());
        if (layout_.dtype == KvDtype::kInt8) std::memset(Scale(t, value), 0xff, sizeof(float));
      }
    }
  }

  std::vector<float> k, v, q;  // [tokens][head_dim], q: [tokens][group][head_dim]; as the cache holds them

 private:
  static void RoundBf16(std::vector<float>& x) {
    for (float& y : x) y = Bf16ToFloat(FloatToBf16(y));
  }
  size_t element_bytes() const { return layout_.dtype == KvDtype::kF32 ? 4 : layout_.dtype == KvDtype::kBf16 ? 2 : 1; }
  uint8_t* Part(int t, bool value) const {
    const size_t block = static_cast<size_t>(blocks_[static_cast<size_t>(t / kBlockTokens)]);
    return pool_.data() + block * layout_.block_bytes() + (value ? layout_.head_part_bytes() : 0);
  }
  uint8_t* Scale(int t, bool value) const {
    return Part(t, value) + kBlockTokens * shape_.head_dim + t % kBlockTokens * sizeof(float);
  }
  // Where element d of a token lies.
  uint8_t* Slot(int t, int d, bool value) const {
    const int slot = t % kBlockTokens;
    const int per_word = layout_.dtype == KvDtype::kF32 ? 1 : 2;
    // Row of words and column in it.
    const int row = (value ? slot : d) / per_word;
    const int column = value ? d : slot;
    const int half = (value ? slot : d) % per_word;
    const int word = row * (value ? shape_.head_dim : kBlockTokens) + column;
    if (layout_.dtype != KvDtype::kInt8) return Part(t, value) + word * 4 + half * 2;
    return Part(t, value) + word / kLanes * (2 * kLanes) + half * kLanes + word % kLanes;
  }
  void Put(int t, int d) {
    const size_t at = static_cast<size_t>(t * shape_.head_dim + d);
    const uint16_t k16 = FloatToBf16(k[at]), v16 = FloatToBf16(v[at]);
    const bool is_f32 = layout_.dtype == KvDtype::kF32;
    std::memcpy(Slot(t, d, false), is_f32 ? static_cast<const void*>(&k[at]) : &k16, element_bytes());
    std::memcpy(Slot(t, d, true), is_f32 ? static_cast<const void*>(&v[at]) : &v16, element_bytes());
  }
  // Stores a token's row of x, times `size`, and leaves in x what was stored.
  void Quantize(int t, float size, std::vector<float>& x, bool value) {
    float* const row = &x[static_cast<size_t>(t * shape_.head_dim)];
    float max = 0;
    for (int d = 0; d < shape_.head_dim; ++d) max = std::max(max, std::abs(row[d] *= size));
    const float scale = max / 127;
    for (int d = 0; d < shape_.head_dim; ++d) {
      const auto integer = static_cast<int8_t>(max > 0 ? std::nearbyint(row[d] * (127 / max)) : 0);
      row[d] = scale * integer;
      std::memcpy(Slot(t, d, value), &integer, 1);
    }
    std::memcpy(Scale(t, value), &scale, sizeof(scale));
  }

  const Shape shape_;
  const KvLayout layout_;
  const size_t query_element_;
  std::vector<int32_t> blocks_;
  AlignedBuffer pool_;
  std::vector<uint8_t> query_;
};

constexpr KvDtype kDtypes[] = {KvDtype::kBf16, KvDtype::kInt8, KvDtype::kF32};

constexpr Shape kShapes[] = {{64, 3, 600},      {64, 1, 40},       {32, 2, 273},      {128, 8, 70},
                             {96, 4, 259},      {16, 7, 33},       {80, 5, 258},      {256, 4, 290},
                             {64, 3, 600, 1},   {64, 2, 600, 2},   {32, 3, 600, 5},   {64, 1, 600, 16},
                             {32, 2, 600, 255}, {64, 3, 600, 256}, {32, 2, 600, 257}, {256, 4, 600, 300}};

TEST_P(AttentionKernels, AttentionEqualsTheDefinitionAtEveryEdge) {
  SeededRandom random(kSeed);
  for (const KvDtype dtype : kDtypes) {
    for (const Shape& shape : kShapes) {
      const Cache cache(shape, dtype, random);
      for (const int first : {0, 1, 7, 14, 15, 16, 31, 200, 248, 250, 254, 255, 256, 257, 510, 511, 512, 592}) {
        for (const int rows : {1, 2, 5, 8}) {
          if (first + rows > shape.tokens) continue;
          EXPECT_EQ(FirstDifference(cache.Run(table(), first, rows), cache.Run(kScalarKernels, first, rows)), -1)
              << KvDtypeName(dtype) << " head_dim " << shape.head_dim << " group " << shape.group << " window "
              << shape.window << " first " << first << " rows " << rows;
        }
      }
    }
  }
}

TEST_P(AttentionKernels, ARowOfAttentionDoesNotDependOnItsTile) {
  SeededRandom random(kSeed);
  for (const KvDtype dtype : kDtypes) {
    for (const int window : {0, 1, 4, 7, 250, 258, 300, 512}) {
      const Shape shape{32, 3, 530, window};
      const Cache cache(shape, dtype, random);
      for (const int first : {0, 3, 250, 253, 508, 522}) {
        const std::vector<float> tile = cache.Run(table(), first, 8);
        for (int r = 0; r < 8; ++r) {
          const std::vector<float> alone = cache.Run(table(), first + r, 1);
          EXPECT_EQ(FirstDifference(&tile[static_cast<size_t>(r) * alone.size()], alone.data(), alone.size()), -1)
              << KvDtypeName(dtype) << " window " << window << " row " << first + r;
        }
      }
    }
  }
}

TEST_P(AttentionKernels, TokensBeforeTheWindowNeverMatter) {
  SeededRandom random(kSeed);
  for (const KvDtype dtype : kDtypes) {
    for (const int window : {1, 8, 9, 40, 300}) {
      const Shape shape{32, 2, 600, window};
      Cache cache(shape, dtype, random);
      for (const int row : {310, 520, 557, 599}) {
        const std::vector<float> want = cache.Run(table(), row, 1);
        cache.Forget(row + 1 - window);
        EXPECT_EQ(FirstDifference(cache.Run(table(), row, 1), want), -1)
            << KvDtypeName(dtype) << " window " << window << " row " << row;
      }
    }
  }
}

TEST_P(AttentionKernels, AttentionIsNearSoftmaxInDouble) {
  SeededRandom random(kSeed);
  for (const KvDtype dtype : kDtypes) {
    for (const Shape& shape : kShapes) {
      const Cache cache(shape, dtype, random);
      for (const int row : {0, 1, shape.tokens / 2, shape.tokens - 1}) {
        const std::vector<float> got = cache.Run(table(), row, 1);
        for (int h = 0; h < shape.group; ++h) {
          for (int d = 0; d < shape.head_dim; d += 7) {
            EXPECT_NEAR(got[static_cast<size_t>(h * shape.head_dim + d)], cache.Naive(row, h, d),
                        dtype == KvDtype::kF32 ? 2e-5 : 0.02)
                << KvDtypeName(dtype) << " row " << row;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine::kernels
