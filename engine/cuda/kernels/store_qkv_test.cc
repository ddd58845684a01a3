#include "engine/cuda/kernels/testing/kernel_device.h"
#include "engine/cuda/kernels/testing/reference.h"

namespace baton::engine::cuda {
namespace {

constexpr uint64_t kQkvSeed = 5772;

struct QkvShape {
  int heads;
  int kv_heads;
  int head_dim;
  bool norms;
  bool neighbours;
};

// Rows of a step, and what they become by the definition.
class QkvCase {
 public:
  static constexpr int kRows = 3;
  static constexpr int kBlocks = 4;

  QkvCase(const QkvShape& shape, RandomSource& random)
      : s_(shape),
        qkv_(RandomFloats(random, static_cast<size_t>(kRows * width()), 2.0f)),
        query_norm_(RandomFloats(random, static_cast<size_t>(shape.head_dim), 1.5f)),
        key_norm_(RandomFloats(random, static_cast<size_t>(shape.head_dim), 1.5f)),
        rotation_(RandomFloats(random, static_cast<size_t>(kRows * shape.head_dim), 1.0f)) {}

  void Check() {
    const size_t block = static_cast<size_t>(2 * 2 * s_.kv_heads * kPageTokens * s_.head_dim);
    const std::vector<Bf16> before(kBlocks * block, 0x1234);
    const DeviceArray<float> qkv(qkv_), query_norm(query_norm_), key_norm(key_norm_), rotation(rotation_);
    const DeviceArray<Bf16> query(static_cast<size_t>(kRows * s_.heads * s_.head_dim)), pool(before);
    const DeviceArray<int32_t> blocks(blocks_), slots(slots_);
    const StoreQkvParams params{.qkv = qkv.get(),
                                .query_norm = s_.norms ? query_norm.get() : nullptr,
                                .key_norm = s_.norms ? key_norm.get() : nullptr,
                                .rotation = rotation.get(),
                                .query = query.get(),
                                .pool = reinterpret_cast<uint8_t*>(pool.get() + block / 2),
                                .row_blocks = blocks.get(),
                                .row_slots = slots.get(),
                                .block_bytes = block * 2,
                                .heads = s_.heads,
                                .kv_heads = s_.kv_heads,
                                .head_dim = s_.head_dim,
                                .rope_neighbours = s_.neighbours,
                                .epsilon = 1e-6f};
    KernelDevice::Get().Run("store_qkv", params, StoreQkvLaunch(kRows, s_.heads, s_.kv_heads));
    std::vector<Bf16> want_query, want_pool = before;
    for (int row = 0; row < kRows; ++row) {
      for (int head = 0; head < s_.heads + 2 * s_.kv_heads; ++head) {
        const std::vector<Bf16> x = ToBf16(Head(row, head));
        if (head < s_.heads) {
          want_query.insert(want_query.end(), x.begin(), x.end());
          continue;
        }
        const size_t token = static_cast<size_t>((head - s_.heads) * kPageTokens + slots_[static_cast<size_t>(row)]);
        const size_t at = static_cast<size_t>(blocks_[static_cast<size_t>(row)]) * block + block / 2 +
                          token * static_cast<size_t>(s_.head_dim);
        std::copy(x.begin(), x.end(), want_pool.begin() + static_cast<ptrdiff_t>(at));
      }
    }
    EXPECT_EQ(FirstDifference(query.Values(), want_query), -1) << "head_dim " << s_.head_dim;
    EXPECT_EQ(FirstDifference(pool.Values(), want_pool), -1) << "head_dim " << s_.head_dim;
  }

  void Spoil(size_t at, float x) { qkv_[at] = x; }

 private:
  int width() const { return (s_.heads + 2 * s_.kv_heads) * s_.head_dim; }

  std::vector<float> Head(int row, int head) const {
    const auto from = qkv_.begin() + row * width() + head * s_.head_dim;
    std::vector<float> x(from, from + s_.head_dim);
    if (head >= s_.heads + s_.kv_heads) return x;
    if (s_.norms) {
      const float root = RootOfMean(x.data(), s_.head_dim, 32, 1, 1e-6f);
      const std::vector<float>& weight = head < s_.heads ? query_norm_ : key_norm_;
      for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] * root * weight[i];
    }
    const size_t half = x.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      const size_t at = static_cast<size_t>(row * s_.head_dim) + 2 * i;
      const float cosine = rotation_[at], sine = rotation_[at + 1];
      float& a = x[s_.neighbours ? 2 * i : i];
      float& b = x[s_.neighbours ? 2 * i + 1 : i + half];
      const float x0 = a, x1 = b;
      a = std::fma(x0, cosine, -(x1 * sine));
      b = std::fma(x1, cosine, x0 * sine);
    }
    return x;
  }

  const QkvShape s_;
  std::vector<float> qkv_;
  const std::vector<float> query_norm_, key_norm_, rotation_;
  const std::vector<int32_t> blocks_ = {2, 0, 2};
  const std::vector<int32_t> slots_ = {15, 0, 7};
};

TEST(CudaStoreQkv, EqualsItsDefinitionBitForBit) {
  SeededRandom random(kQkvSeed);
  for (const QkvShape& shape : {QkvShape{1, 1, 16, false, false},
                                {3, 1, 64, false, true},
                                {4, 2, 32, true, false},
                                {2, 2, 80, true, true},
                                {8, 1, 128, true, false},
                                {4, 1, 256, true, false}}) {
    QkvCase(shape, random).Check();
  }
}

TEST(CudaStoreQkv, NanAndInfinityPassThrough) {
  SeededRandom random(kQkvSeed);
  QkvCase c({2, 1, 32, false, false}, random);
  c.Spoil(5, std::nanf(""));
  c.Spoil(3 * 32 + 1, INFINITY);
  c.Spoil(128 + 2 * 32 + 7, -INFINITY);
  c.Check();
}

}  // namespace
}  // namespace baton::engine::cuda
