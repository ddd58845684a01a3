// What "store_qkv" writes beside what the CPU's writer of KV does, by its own RoPE and behind its norms of q and k.
#include <cmath>
#include <iterator>
#include <vector>

#include "engine/cuda/kernels/testing/kernel_device.h"
#include "engine/cuda/kernels/testing/reference.h"
#include "engine/kernels/dispatch.h"
#include "engine/kernels/half.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/kernels/trigonometry.h"
#include "engine/model/kv_writer.h"
#include "engine/model_options.h"

namespace baton::engine::cuda {
namespace {

constexpr uint64_t kStoreSeed = 6931;
// A rotation adds two terms; the ulps are those of the sum of their magnitudes.
constexpr double kRotatedUlps = 1;

struct HeadsShape {
  int heads;
  int kv_heads;
  int head_dim;
  bool norms;
  bool neighbours;
  float theta = 10000.0f;
  float scaling = 1.0f;
};

modelfile::ModelConfig ConfigOf(const HeadsShape& shape) {
  modelfile::ModelConfig config;
  config.layers = 1;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.context_length = 1 << 20;
  config.rms_norm_eps = 1e-6f;
  config.rope_theta = shape.theta;
  config.rope_scaling_factor = shape.scaling;
  config.rope_interleaved = shape.neighbours;
  config.query_key_norm = shape.norms;
  return config;
}

// Rows of a step on the device, and on the CPU by its writer of KV.
class BothStores {
 public:
  static constexpr int kBlocks = 4;

  BothStores(const HeadsShape& shape, RandomSource& random)
      : s_(shape),
        config_(ConfigOf(shape)),
        layout_(KvLayoutOf(config_, KvDtype::kBf16)),
        plan_(static_cast<int>(positions_.size()), layout_.groups()),
        order_{shape.neighbours ? 0 : shape.head_dim},
        qkv_(RandomFloats(random, positions_.size() * width(), 4.0f)),
        query_norm_(RandomFloats(random, static_cast<size_t>(shape.head_dim), 1.5f)),
        key_norm_(RandomFloats(random, static_cast<size_t>(shape.head_dim), 1.5f)),
        writer_(config_, layout_, kernels::kScalarKernels, plan_, static_cast<int>(positions_.size())),
        cpu_pool_(kBlocks * layout_.block_bytes()) {
    for (size_t row = 0; row < positions_.size(); ++row) {
      plan_.rows.push_back({.token = 0, .position = positions_[row], .slot = slot(row)});
      plan_.RowBlock(0, static_cast<int>(row)) = blocks_[row];
    }
    writer_.SetPool(cpu_pool_.data());
  }

  // Element `i` of the head's part of a row.
  float& At(size_t row, int head, int i) { return qkv_[row * width() + static_cast<size_t>(head * s_.head_dim + i)]; }

  void Check() {
    RunOnDevice();
    for (size_t row = 0; row < positions_.size(); ++row) {
      writer_.PrepareRotation(static_cast<int>(row));
      for (int head = 0; head < s_.heads + 2 * s_.kv_heads; ++head) CheckHead(row, head);
    }
  }

 private:
  size_t width() const { return static_cast<size_t>((s_.heads + 2 * s_.kv_heads) * s_.head_dim); }
  int32_t slot(size_t row) const { return positions_[row] % kBlockTokens; }

  // [rows][head_dim / 2] pairs, as engine/cuda/step_data.h uploads them.
  std::vector<float> Rotation() const {
    std::vector<float> rotation;
    for (const int32_t position : positions_) {
      for (int i = 0; i < s_.head_dim / 2; ++i) {
        const float frequency = static_cast<float>(kernels::InversePower(s_.theta, 2.0 * i / s_.head_dim)) / s_.scaling;
        const kernels::SinCos angle = kernels::SineCosine(frequency * static_cast<float>(position));
        rotation.push_back(static_cast<float>(angle.cosine));
        rotation.push_back(static_cast<float>(angle.sine));
      }
    }
    return rotation;
  }

  void RunOnDevice() {
    std::vector<int32_t> slots;
    for (size_t row = 0; row < positions_.size(); ++row) slots.push_back(slot(row));
    const DeviceArray<float> qkv(qkv_), query_norm(query_norm_), key_norm(key_norm_), rotation(Rotation());
    const DeviceArray<Bf16> query(positions_.size() * static_cast<size_t>(s_.heads * s_.head_dim));
    const DeviceArray<Bf16> pool(std::vector<Bf16>(kBlocks * layout_.block_bytes() / sizeof(Bf16)));
    const DeviceArray<int32_t> blocks(blocks_), device_slots(slots);
    const StoreQkvParams params{.qkv = qkv.get(),
                                .query_norm = s_.norms ? query_norm.get() : nullptr,
                                .key_norm = s_.norms ? key_norm.get() : nullptr,
                                .rotation = rotation.get(),
                                .query = query.get(),
                                .pool = reinterpret_cast<uint8_t*>(pool.get()),
                                .row_blocks = blocks.get(),
                                .row_slots = device_slots.get(),
                                .block_bytes = layout_.block_bytes(),
                                .heads = s_.heads,
                                .kv_heads = s_.kv_heads,
                                .head_dim = s_.head_dim,
                                .rope_neighbours = s_.neighbours,
                                .epsilon = config_.rms_norm_eps};
    KernelDevice::Get().Run("store_qkv", params,
                            StoreQkvLaunch(static_cast<int32_t>(positions_.size()), s_.heads, s_.kv_heads));
    query_ = query.Values();
    pool_ = pool.Values();
  }

  // The device's part of a row, head by head.
  const Bf16* OnDevice(size_t row, int head) const {
    const size_t head_dim = static_cast<size_t>(s_.head_dim);
    if (head < s_.heads) return &query_[(row * static_cast<size_t>(s_.heads) + static_cast<size_t>(head)) * head_dim];
    const size_t token = static_cast<size_t>((head - s_.heads) * kPageTokens + slot(row));
    return &pool_[static_cast<size_t>(blocks_[row]) * layout_.block_bytes() / sizeof(Bf16) + token * head_dim];
  }

  // Has the CPU store a head, and compares what both have.
  void CheckHead(size_t row, int head) {
    const bool is_query = head < s_.heads, is_value = head >= s_.heads + s_.kv_heads;
    const std::vector<float> x = OfCpu(row, head);
    const int first = is_query ? 0 : is_value ? s_.heads + s_.kv_heads : s_.heads;
    const KvWriter::Part part{.layer = 0,
                              .row = static_cast<int>(row),
                              .rows = 1,
                              .column = (head - first) * s_.head_dim,
                              .width = s_.head_dim};
    std::vector<float> y = x;
    if (is_query) {
      writer_.StoreQuery(part, y.data());
    } else if (is_value) {
      writer_.StoreValue(part, y.data());
    } else {
      writer_.StoreKey(part, y.data());
    }
    const std::vector<float> rotation = Rotation();
    for (int r = 0; r < s_.head_dim; ++r) {
      const Bf16 want = Stored(row, head, r);
      const Bf16 got = OnDevice(row, head)[is_value ? r : order_.Source(r)];
      if (is_value || !s_.norms) {
        EXPECT_EQ(got, want) << "row " << row << " head " << head << " element " << r;
        continue;
      }
      const float* const turn = &rotation[row * static_cast<size_t>(s_.head_dim) + static_cast<size_t>(r / 2 * 2)];
      const float own = x[static_cast<size_t>(r)], partner = x[static_cast<size_t>(r ^ 1)];
      const double magnitude = std::abs(own * turn[0]) + std::abs(partner * turn[1]);
      EXPECT_LE(InUlps(ToFloat(got) - ToFloat(want), magnitude, kBf16Bits), kRotatedUlps)
          << "row " << row << " head " << head << " element " << r;
    }
  }

  // A head as it comes to the CPU's writer: in the order of its weights' rows, and normed.
  std::vector<float> OfCpu(size_t row, int head) {
    const bool is_value = head >= s_.heads + s_.kv_heads;
    std::vector<float> x(static_cast<size_t>(s_.head_dim)), weight(x.size());
    for (int r = 0; r < s_.head_dim; ++r) {
      x[static_cast<size_t>(r)] = At(row, head, is_value ? r : order_.Source(r));
      const std::vector<float>& norm = head < s_.heads ? query_norm_ : key_norm_;
      weight[static_cast<size_t>(r)] = norm[static_cast<size_t>(order_.Source(r))];
    }
    if (s_.norms && !is_value) {
      kernels::kScalarKernels.rms_norm(x.data(), weight.data(), s_.head_dim, config_.rms_norm_eps, x.data());
    }
    return x;
  }

  // Element r of what the CPU has stored, in its arrangement (kernels::AttentionCall).
  Bf16 Stored(size_t row, int head, int r) const {
    const size_t element = static_cast<size_t>(r), token = static_cast<size_t>(slot(row));
    const size_t head_dim = static_cast<size_t>(s_.head_dim);
    if (head < s_.heads) return kernels::LoadU16(writer_.Query(static_cast<int>(row), head) + 2 * element);
    const size_t block = static_cast<size_t>(blocks_[row]) * layout_.block_bytes();
    const int kv_head = (head - s_.heads) % s_.kv_heads;
    if (head < s_.heads + s_.kv_heads) {
      return kernels::LoadU16(writer_.Keys(0, kv_head) + block + element / 2 * 64 + token * 4 + element % 2 * 2);
    }
    return kernels::LoadU16(writer_.Values(0, kv_head) + block + (token / 2 * head_dim + element) * 4 + token % 2 * 2);
  }

  const HeadsShape s_;
  const std::vector<int32_t> positions_ = {0, 1, 17, 30, 4095, 131071};
  const std::vector<int32_t> blocks_ = {2, 2, 0, 0, 3, 1};
  const modelfile::ModelConfig config_;
  const KvLayout layout_;
  StepPlan plan_;
  const kernels::RowOrder order_;
  std::vector<float> qkv_;
  const std::vector<float> query_norm_, key_norm_;
  KvWriter writer_;
  std::vector<uint8_t> cpu_pool_;
  std::vector<Bf16> query_, pool_;
};

TEST(CudaStoreQkv, StoresWhatTheCpuStores) {
  const kernels::FpStateGuard fp_state;
  SeededRandom random(kStoreSeed);
  for (const HeadsShape& shape : {HeadsShape{1, 1, 16, false, true},
                                  {3, 1, 64, false, true},
                                  {4, 2, 96, false, false, 500000.0f, 8.0f},
                                  {8, 2, 128, false, false},
                                  {2, 2, 80, true, true},
                                  {4, 1, 128, true, false, 1000000.0f},
                                  {2, 1, 256, true, false}}) {
    BothStores(shape, random).Check();
  }
}

TEST(CudaStoreQkv, RoundsWhatIsNoOrdinaryNumberAsTheCpuDoes) {
  const kernels::FpStateGuard fp_state;
  SeededRandom random(kStoreSeed);
  BothStores stores({1, 1, 32, false, true}, random);
  // Ties to either side, zeros, what rounds to infinity, infinities, and the least normal number. Row 0 is not turned.
  const float edges[] = {0x1.01p0f,   0x1.03p0f,    -0x1.01p0f, 0x1.02fffep0f, 0.0f,     -0.0f,
                         0x1.ffp127f, -0x1.fep127f, INFINITY,   -INFINITY,     0x1p-126f};
  for (size_t i = 0; i < std::size(edges); ++i) {
    for (size_t row = 0; row < 3; ++row) stores.At(row, 2, static_cast<int>(i)) = edges[i];
    if (std::isfinite(edges[i])) {
      stores.At(0, 0, static_cast<int>(2 * i)) = stores.At(0, 1, static_cast<int>(2 * i)) = edges[i];
    }
  }
  stores.Check();
}

}  // namespace
}  // namespace baton::engine::cuda
