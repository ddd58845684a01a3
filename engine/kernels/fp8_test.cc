// FP8 as the engine reads it: elements against a recorded table, rows and packed matrices against their scales.
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "common/random.h"
#include "engine/kernels/half.h"
#include "engine/kernels/packed_matrix.h"
#include "gtest/gtest.h"

namespace baton::engine::kernels {
namespace {

using modelfile::TensorType;

constexpr uint64_t kFp8Seed = 4003;

// What each byte stands for, by scripts/oracles/fp8_oracle.py.
std::vector<float> RecordedFp8Values() {
  std::ifstream in(std::string(BATON_SOURCE_DIR) + "/tests/data/fp8/e4m3.txt");
  std::vector<float> values;
  std::string byte, value;
  while (in >> byte >> value) {
    EXPECT_EQ(std::stoul(byte, nullptr, 16), values.size());
    values.push_back(value == "nan" ? NAN : std::stof(value));
  }
  EXPECT_EQ(values.size(), 256u);
  return values;
}

// A matrix of every element but NaN, whose scales are random numbers of 24 bits.
struct Fp8Tensor {
  Fp8Tensor(int64_t rows, int64_t cols, int64_t block_rows, int64_t block_cols) {
    SeededRandom random(kFp8Seed);
    data.resize(static_cast<size_t>(rows * cols));
    for (uint8_t& byte : data) {
      byte = static_cast<uint8_t>(random.Next64());
      if ((byte & 0x7f) == 0x7f) byte ^= 1;
    }
    scales.resize(static_cast<size_t>((rows + block_rows - 1) / block_rows * ((cols + block_cols - 1) / block_cols)));
    for (float& scale : scales) scale = 0.01f + static_cast<float>(random.Next64() >> 40) * 0x1p-25f;
    view = {.name = "w", .type = TensorType::kF8E4M3, .rows = rows, .cols = cols};
    view.data = data.data();
    view.bytes = data.size();
    view.scales = {.values = scales.data(), .rows = block_rows, .cols = block_cols};
  }

  float At(int64_t row, int64_t col) const {
    const int64_t of_row = (view.cols + view.scales.cols - 1) / view.scales.cols;
    return Fp8ToFloat(data[static_cast<size_t>(row * view.cols + col)]) *
           scales[static_cast<size_t>(row / view.scales.rows * of_row + col / view.scales.cols)];
  }

  std::vector<uint8_t> data;
  std::vector<float> scales;
  modelfile::TensorView view;
};

struct Fp8Shape {
  int64_t block_rows;
  int64_t block_cols;
};
constexpr int64_t kFp8Rows = 150, kFp8Cols = 288;
// A scale for the whole matrix, for each row, and for blocks of which the last are smaller.
constexpr Fp8Shape kFp8Shapes[] = {{kFp8Rows, kFp8Cols}, {1, kFp8Cols}, {128, 128}};

TEST(Fp8, EveryByteStandsForTheRecordedValue) {
  const std::vector<float> want = RecordedFp8Values();
  for (size_t byte = 0; byte < want.size(); ++byte) {
    const float got = Fp8ToFloat(static_cast<uint8_t>(byte));
    if (std::isnan(want[byte])) {
      EXPECT_TRUE(std::isnan(got)) << byte;
    } else {
      EXPECT_EQ(FloatToBits(got), FloatToBits(want[byte])) << byte;
      // The kernels of devices rely on it.
      EXPECT_EQ(FloatToBits(Bf16ToFloat(FloatToBf16(got))), FloatToBits(got)) << byte;
    }
  }
}

TEST(Fp8, RowsAreElementsTimesTheirScales) {
  for (const auto& [block_rows, block_cols] : kFp8Shapes) {
    const Fp8Tensor tensor(kFp8Rows, kFp8Cols, block_rows, block_cols);
    std::vector<float> row(static_cast<size_t>(kFp8Cols));
    for (int64_t r = 0; r < kFp8Rows; ++r) {
      DequantizeRow(tensor.view, r, row.data());
      for (int64_t c = 0; c < kFp8Cols; ++c) {
        ASSERT_EQ(FloatToBits(row[static_cast<size_t>(c)]), FloatToBits(tensor.At(r, c))) << r << " " << c;
      }
    }
  }
}

TEST(Fp8, IsPackedAsFloatsThatAreExactAndAsTheNearestBf16) {
  for (const auto& [block_rows, block_cols] : kFp8Shapes) {
    const Fp8Tensor tensor(kFp8Rows, kFp8Cols, block_rows, block_cols);
    for (const WeightFormat format : {WeightFormat::kF32, FormatOf(TensorType::kF8E4M3)}) {
      PackedMatrix packed = ShapeOf(format, kFp8Rows, kFp8Cols);
      std::vector<uint8_t> storage(packed.bytes());
      packed.data = storage.data();
      const PackSource source{.tensor = &tensor.view, .type = TensorType::kF8E4M3, .order = {}};
      PackBlocks(source, 0, packed.col_blocks, packed);
      std::vector<float> row(static_cast<size_t>(kFp8Cols));
      for (int r = 0; r < kFp8Rows; ++r) {
        UnpackRow(packed, r, row.data());
        for (int64_t c = 0; c < kFp8Cols; ++c) {
          const float want = tensor.At(r, c);
          ASSERT_EQ(row[static_cast<size_t>(c)], format == WeightFormat::kF32 ? want : Bf16ToFloat(FloatToBf16(want)))
              << r << " " << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine::kernels
