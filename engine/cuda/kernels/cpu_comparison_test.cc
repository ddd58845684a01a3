// Kernels that copy and choose, beside the CPU's embedding and its choice of the greatest logit.
#include <cmath>
#include <iterator>
#include <vector>

#include "engine/cuda/kernels/testing/kernel_device.h"
#include "engine/cuda/kernels/testing/reference.h"
#include "engine/cuda/weight_rows.h"
#include "engine/kernels/dispatch.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/model/synthetic_model.h"
#include "engine/sampler.h"

namespace baton::engine::cuda {
namespace {

using modelfile::TensorType;

constexpr uint64_t kComparisonSeed = 6931;

// A tensor as the CPU packs it and as the device has it.
class BothWeights {
 public:
  explicit BothWeights(const modelfile::TensorView& tensor)
      : cpu_(kernels::ShapeOf(kernels::FormatOf(tensor.type), static_cast<int>(tensor.rows),
                              static_cast<int>(tensor.cols))),
        packed_(cpu_.bytes()) {
    cpu_.data = packed_.data();
    kernels::PackBlocks({.tensor = &tensor, .type = tensor.type, .order = {}}, 0, cpu_.col_blocks, cpu_);
    const RowFormat format = FormatFor(tensor.type);
    const RowBytes bytes = BytesOfRow(format, tensor.cols);
    const size_t rows = static_cast<size_t>(tensor.rows);
    device_.format = format.values;
    device_.n = static_cast<int>(tensor.rows);
    device_.k = static_cast<int>(tensor.cols);
    device_.factor = format.factor;
    device_.values.resize(rows * bytes.values);
    device_.scales.resize(rows * bytes.scales / sizeof(uint32_t));
    device_.factors.resize(rows * bytes.factors / sizeof(uint16_t));
    RowEncoder encoder;
    for (size_t row = 0; row < rows; ++row) {
      encoder.Encode({&tensor, tensor.type}, static_cast<int64_t>(row), format,
                     {.values = device_.values.data() + row * bytes.values,
                      .scales = device_.scales.data() + row * bytes.scales / sizeof(uint32_t),
                      .factors = device_.factors.data() + row * bytes.factors / sizeof(uint16_t)});
    }
  }

  const kernels::PackedMatrix& cpu() const { return cpu_; }
  const HostMatrix& device() const { return device_; }

 private:
  kernels::PackedMatrix cpu_;
  std::vector<uint8_t> packed_;
  HostMatrix device_{};
};

TEST(CudaEmbed, EqualsTheCpusEmbeddingOfWhichEachValueIsABf16) {
  const kernels::FpStateGuard fp_state;
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBf16, TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1,
        TensorType::kQ5_0, TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kF8E4M3}) {
    for (const int hidden : {256, 1536}) {
      // The up projection stands for an embedding: its type is free.
      const auto file = MakeSyntheticModel({.seed = kComparisonSeed,
                                            .layers = 1,
                                            .hidden_size = hidden,
                                            .ffn_size = 64,
                                            .ffn = type,
                                            .fp8_blocks = true});
      const BothWeights weights(*file->Find("blk.0.ffn_up.weight"));
      const DeviceMatrix embedding(weights.device());
      const std::vector<int32_t> tokens = {63, 0, 31, 31, 1};
      for (const float scale : {1.0f, std::sqrt(static_cast<float>(hidden))}) {
        const DeviceArray<int32_t> device_tokens(tokens);
        const DeviceArray<float> out(tokens.size() * static_cast<size_t>(hidden));
        KernelDevice::Get().Run(
            "embed", EmbedParams{embedding.get(), device_tokens.get(), device_tokens.get(), out.get(), scale},
            EmbedLaunch(static_cast<int32_t>(tokens.size())));
        std::vector<float> want;
        for (const int32_t token : tokens) {
          std::vector<float> row(static_cast<size_t>(hidden));
          kernels::UnpackRow(weights.cpu(), token, row.data());
          for (const float value : row) want.push_back(RoundToBf16(value) * scale);
        }
        EXPECT_EQ(FirstDifference(out.Values(), want), -1)
            << modelfile::TensorTypeName(type) << " hidden " << hidden << " scale " << scale;
      }
    }
  }
}

TEST(CudaArgmax, ChoosesTheTokensOfTheCpu) {
  SeededRandom random(kComparisonSeed);
  const float odd[] = {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY, 0.0f, -0.0f, 1e-42f, -1e-42f};
  for (const int vocab : {1, 2, 31, 32, 1023, 1024, 1025, 4999}) {
    const size_t n = static_cast<size_t>(vocab);
    constexpr size_t kRows = 8;
    std::vector<float> logits = RandomFloats(random, kRows * n, 9.0f);
    for (size_t i = 0; i < n; ++i) {
      // Equal ones, odd ones alone, odd ones among others, NaN alone.
      logits[n + i] = static_cast<float>(random.Below(3));
      logits[2 * n + i] = odd[random.Below(std::size(odd))];
      if (random.Below(4) == 0) logits[3 * n + i] = odd[random.Below(std::size(odd))];
      logits[4 * n + i] = odd[random.Below(2)];
      logits[5 * n + i] = odd[random.Below(2) == 0 ? 0 : 3];
      logits[6 * n + i] = odd[4 + random.Below(4)];
    }
    const DeviceArray<float> in(logits);
    const DeviceArray<int32_t> tokens(kRows);
    KernelDevice::Get().Run("argmax", ArgmaxParams{in.get(), tokens.get(), vocab}, ArgmaxLaunch(kRows));
    std::vector<int32_t> want;
    for (size_t row = 0; row < kRows; ++row) want.push_back(ArgMax(absl::MakeConstSpan(logits).subspan(row * n, n)));
    EXPECT_EQ(tokens.Values(), want) << vocab;
  }
}

}  // namespace
}  // namespace baton::engine::cuda
