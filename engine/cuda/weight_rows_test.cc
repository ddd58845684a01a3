#include "engine/cuda/weight_rows.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "common/random.h"
#include "engine/kernels/half.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/model/synthetic_model.h"
#include "gtest/gtest.h"

namespace baton::engine::cuda {
namespace {

using modelfile::TensorType;

constexpr TensorType kEveryType[] = {TensorType::kF32,  TensorType::kF16,  TensorType::kBf16,  TensorType::kQ8_0,
                                     TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_0,  TensorType::kQ4_K,
                                     TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kF8E4M3};

// A row in a format, and what kernels/params.h says that it stands for.
struct EncodedRow {
  EncodedRow(const RowSource& source, int64_t index, const RowFormat& of_format)
      : format(of_format),
        bytes(BytesOfRow(format, source.tensor->cols)),
        values(bytes.values),
        scales(bytes.scales / sizeof(uint32_t)),
        factors(bytes.factors / sizeof(uint16_t)) {
    RowEncoder().Encode(source, index, format, {values.data(), scales.data(), factors.data()});
  }

  Bf16 At(size_t i) const {
    if (format.values == WeightFormat::kBf16) return kernels::LoadU16(values.data() + 2 * i);
    if (format.values == WeightFormat::kFp8) {
      return kernels::FloatToBf16(kernels::BitsToFloat(scales[i / 128]) * kernels::Fp8ToFloat(values[i]));
    }
    const bool is_int8 = format.values == WeightFormat::kInt8;
    const int q = is_int8 ? static_cast<int8_t>(values[i]) : values[i / 2] >> (i % 2 * 4) & 15;
    const uint32_t pair = scales[i / (format.has_factors ? 256 : 32)];
    const uint16_t factor = format.has_factors ? factors[i / (is_int8 ? 16 : 32)] : format.factor;
    const auto product = [](uint32_t half, int byte) {
      return kernels::HalfToFloat(static_cast<uint16_t>(half)) * static_cast<float>(static_cast<int8_t>(byte));
    };
    const float scale = product(pair, factor), minimum = product(pair >> 16, factor >> 8);
    return kernels::FloatToBf16(std::fma(scale, static_cast<float>(q), minimum));
  }

  const RowFormat format;
  const RowBytes bytes;
  std::vector<uint8_t> values;
  std::vector<uint32_t> scales;
  std::vector<uint16_t> factors;
};

const modelfile::TensorView& MatrixOf(const modelfile::ModelFile& file) { return *file.Find("blk.0.ffn_up.weight"); }

TEST(WeightRows, StandForTheFilesValuesRoundedToBf16InEveryFormatThatHoldsThem) {
  for (const TensorType type : kEveryType) {
    const auto file = MakeSyntheticModel({.seed = 3, .hidden_size = 256, .ffn_size = 32, .ffn = type});
    const modelfile::TensorView& tensor = MatrixOf(*file);
    std::vector<float> want(static_cast<size_t>(tensor.cols));
    for (const TensorType other : kEveryType) {
      const RowFormat format = CommonFormat(FormatFor(type), FormatFor(other));
      for (int64_t row = 0; row < tensor.rows; ++row) {
        kernels::DequantizeRow(tensor, row, want.data());
        const EncodedRow got({&tensor, type}, row, format);
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_EQ(got.At(i), kernels::FloatToBf16(want[i]))
              << modelfile::TensorTypeName(type) << " beside " << modelfile::TensorTypeName(other) << ", row " << row
              << ", element " << i;
        }
      }
    }
  }
}

TEST(WeightRows, Fp8HasTheScalesOfItsBlocksOfWhichTheLastMayBeSmaller) {
  for (const bool has_blocks : {false, true}) {
    const auto file = MakeSyntheticModel(
        {.seed = 5, .hidden_size = 288, .ffn_size = 160, .ffn = TensorType::kF8E4M3, .fp8_blocks = has_blocks});
    const modelfile::TensorView& tensor = MatrixOf(*file);
    std::vector<float> want(static_cast<size_t>(tensor.cols));
    for (int64_t row = 0; row < tensor.rows; ++row) {
      kernels::DequantizeRow(tensor, row, want.data());
      const EncodedRow got({&tensor, tensor.type}, row, FormatFor(tensor.type));
      ASSERT_EQ(got.scales.size(), 3u);
      EXPECT_EQ(got.scales[0] == got.scales[2], !has_blocks) << row;
      for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got.At(i), kernels::FloatToBf16(want[i])) << row << " " << i;
    }
  }
}

TEST(WeightRows, FloatRowsThatAreRoundedStandForTheBlocksOfTheCpu) {
  const auto file = MakeSyntheticModel({.seed = 4, .hidden_size = 64, .ffn_size = 32, .ffn = TensorType::kF16});
  const modelfile::TensorView& tensor = MatrixOf(*file);
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_1}) {
    kernels::PackedMatrix packed =
        kernels::ShapeOf(kernels::FormatOf(type), static_cast<int>(tensor.rows), static_cast<int>(tensor.cols));
    std::vector<uint8_t> storage(packed.bytes());
    packed.data = storage.data();
    kernels::PackBlocks({.tensor = &tensor, .type = type, .order = {}}, 0, packed.col_blocks, packed);
    std::vector<float> want(static_cast<size_t>(tensor.cols));
    for (int row = 0; row < packed.rows; ++row) {
      kernels::UnpackRow(packed, row, want.data());
      const EncodedRow got({&tensor, type}, row, FormatFor(type));
      for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got.At(i), kernels::FloatToBf16(want[i])) << row << " " << i;
    }
  }
}

TEST(WeightRows, TheCommonFormatLosesNothingOfEither) {
  const auto common = [](TensorType a, TensorType b) { return CommonFormat(FormatFor(a), FormatFor(b)); };
  const RowFormat bf16, int8{.values = WeightFormat::kInt8}, k_int8{.values = WeightFormat::kInt8, .has_factors = true};
  EXPECT_EQ(common(TensorType::kQ4_1, TensorType::kQ4_1), FormatFor(TensorType::kQ4_1));
  EXPECT_EQ(common(TensorType::kQ4_1, TensorType::kQ4_0), int8);
  EXPECT_EQ(common(TensorType::kQ8_0, TensorType::kQ4_0), int8);
  EXPECT_EQ(common(TensorType::kQ4_K, TensorType::kQ6_K), k_int8);
  EXPECT_EQ(common(TensorType::kQ4_K, TensorType::kQ8_0), bf16);
  EXPECT_EQ(common(TensorType::kQ8_0, TensorType::kF16), bf16);
  EXPECT_EQ(common(TensorType::kF8E4M3, TensorType::kF8E4M3).values, WeightFormat::kFp8);
  EXPECT_EQ(common(TensorType::kF8E4M3, TensorType::kBf16), bf16);
  EXPECT_EQ(common(TensorType::kF8E4M3, TensorType::kQ8_0), bf16);
}

// The table of docs/gpu.md.
TEST(WeightRows, TakeFewBitsBesideTheirQuants) {
  const std::pair<TensorType, double> bits[] = {
      {TensorType::kF32, 16},     {TensorType::kQ4_0, 5},     {TensorType::kQ4_1, 5},
      {TensorType::kQ4_K, 4.625}, {TensorType::kQ8_0, 9},     {TensorType::kQ5_0, 9},
      {TensorType::kQ5_K, 9.125}, {TensorType::kQ6_K, 9.125}, {TensorType::kF8E4M3, 8.25}};
  for (const auto& [type, want] : bits) {
    EXPECT_EQ(static_cast<double>(BytesOfRow(FormatFor(type), 512).total()) * 8 / 512, want)
        << modelfile::TensorTypeName(type);
  }
}

TEST(WeightRows, AMinimumOfQ4_0ThatIsBeyondF16IsNotLost) {
  std::vector<uint8_t> block(18);
  for (size_t i = 0; i < 16; ++i) block[2 + i] = static_cast<uint8_t>(i | (15 - i) << 4);
  const modelfile::TensorView tensor{
      .name = {}, .type = TensorType::kQ4_0, .rows = 1, .cols = 32, .data = block.data(), .bytes = block.size()};
  for (const float scale : {65504.0f, -9000.0f, 0x1p-24f}) {
    const uint16_t half = kernels::FloatToHalf(scale);
    std::memcpy(block.data(), &half, sizeof(half));
    for (const TensorType other : {TensorType::kQ4_0, TensorType::kQ8_0}) {
      const EncodedRow got({&tensor, TensorType::kQ4_0}, 0,
                           CommonFormat(FormatFor(TensorType::kQ4_0), FormatFor(other)));
      for (size_t i = 0; i < 32; ++i) {
        const int q = i < 16 ? static_cast<int>(i) : 31 - static_cast<int>(i);
        const float want = kernels::HalfToFloat(half) * static_cast<float>(q - 8);
        // The zeros of both signs are equal.
        EXPECT_EQ(kernels::Bf16ToFloat(got.At(i)), kernels::Bf16ToFloat(kernels::FloatToBf16(want))) << i;
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine::cuda
