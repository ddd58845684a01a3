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

constexpr TensorType kEveryType[] = {TensorType::kF32,  TensorType::kF16,  TensorType::kBf16, TensorType::kQ8_0,
                                     TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ4_K,
                                     TensorType::kQ5_K, TensorType::kQ6_K};

// A row in a format, and what kernels/params.h says that it stands for.
struct EncodedRow {
  EncodedRow(const RowSource& source, int64_t index, WeightFormat of_format)
      : format(of_format),
        values(ValueBytes(format, source.tensor->cols)),
        scales(ScaleBytes(format, source.tensor->cols) / sizeof(float)) {
    RowEncoder().Encode(source, index, format, values.data(), scales.data());
  }

  Bf16 At(size_t i) const {
    if (format == WeightFormat::kBf16) return kernels::LoadU16(values.data() + 2 * i);
    const bool is_int8 = format == WeightFormat::kInt8;
    const int q = is_int8 ? static_cast<int8_t>(values[i]) : values[i / 2] >> (i % 2 * 4) & 15;
    const size_t group = i / (is_int8 ? 16 : 32);
    return kernels::FloatToBf16(std::fma(scales[2 * group], static_cast<float>(q), scales[2 * group + 1]));
  }

  WeightFormat format;
  std::vector<uint8_t> values;
  std::vector<float> scales;
};

const modelfile::TensorView& MatrixOf(const modelfile::ModelFile& file) { return *file.Find("blk.0.ffn_up.weight"); }

TEST(WeightRows, StandForTheFilesValuesRoundedToBf16InEveryFormatThatHoldsThem) {
  for (const TensorType type : kEveryType) {
    const auto file = MakeSyntheticModel({.seed = 3, .hidden_size = 256, .ffn_size = 32, .ffn = type});
    const modelfile::TensorView& tensor = MatrixOf(*file);
    std::vector<float> want(static_cast<size_t>(tensor.cols));
    for (const WeightFormat other : {WeightFormat::kInt4, WeightFormat::kInt8, WeightFormat::kBf16}) {
      const WeightFormat format = CommonFormat(FormatFor(type), other);
      for (int64_t row = 0; row < tensor.rows; ++row) {
        kernels::DequantizeRow(tensor, row, want.data());
        const EncodedRow got({&tensor, type}, row, format);
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_EQ(got.At(i), kernels::FloatToBf16(want[i]))
              << modelfile::TensorTypeName(type) << " in format " << static_cast<int>(format) << ", row " << row
              << ", element " << i;
        }
      }
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
  EXPECT_EQ(CommonFormat(WeightFormat::kInt4, WeightFormat::kInt4), WeightFormat::kInt4);
  EXPECT_EQ(CommonFormat(WeightFormat::kInt4, WeightFormat::kInt8), WeightFormat::kInt8);
  EXPECT_EQ(CommonFormat(WeightFormat::kInt8, WeightFormat::kBf16), WeightFormat::kBf16);
  EXPECT_EQ(CommonFormat(WeightFormat::kBf16, WeightFormat::kInt4), WeightFormat::kBf16);
}

}  // namespace
}  // namespace baton::engine::cuda
