#include "engine/kernels/quantize_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/kernels/half.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/testing/every_table.h"

namespace baton::engine::kernels {
namespace {

using modelfile::TensorType;

std::vector<uint8_t> Quantize(const std::vector<float>& values, TensorType type) {
  std::vector<uint8_t> blocks(values.size() / kGroup * modelfile::TensorBlockBytes(type));
  QuantizeRow(values.data(), static_cast<int64_t>(values.size()), type, blocks.data());
  return blocks;
}

std::vector<float> Dequantize(const std::vector<uint8_t>& blocks, TensorType type, size_t count) {
  const modelfile::TensorView view{.name = "w",
                                   .type = type,
                                   .rows = 1,
                                   .cols = static_cast<int64_t>(count),
                                   .data = blocks.data(),
                                   .bytes = blocks.size()};
  std::vector<float> values(count);
  DequantizeRow(view, 0, values.data());
  return values;
}

TEST(FloatToHalf, RoundsEveryFloatBetweenTwoHalvesToTheNearerOneAndTiesToEven) {
  for (uint32_t half = 0; half < 0x7bff; ++half) {
    const float low = HalfToFloat(static_cast<uint16_t>(half));
    const float high = HalfToFloat(static_cast<uint16_t>(half + 1));
    // Exact: halves and their middle have at most 12 significant bits.
    const float middle = (low + high) / 2;
    ASSERT_EQ(FloatToHalf(low), half);
    ASSERT_EQ(FloatToHalf(-low), half | 0x8000u);
    ASSERT_EQ(FloatToHalf(middle), half + half % 2) << half;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, high)), half + 1) << half;
  }
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(FloatToHalf(1e-30f), 0);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(QuantizeRow, Q8_0TakesTheLargestMagnitudeAs127AndRoundsTiesToEven) {
  std::vector<float> values(32, 0.0f);
  values[0] = -127.0f;
  values[1] = 2.5f;
  values[2] = 3.5f;
  values[3] = -0.5f;
  values[31] = 126.75f;
  const std::vector<uint8_t> blocks = Quantize(values, TensorType::kQ8_0);
  EXPECT_EQ(LoadU16(blocks.data()), FloatToHalf(1.0f));
  const auto* const q = reinterpret_cast<const int8_t*>(blocks.data() + 2);
  EXPECT_EQ(q[0], -127);
  EXPECT_EQ(q[1], 2);
  EXPECT_EQ(q[2], 4);
  EXPECT_EQ(q[3], 0);
  EXPECT_EQ(q[31], 127);
}

TEST(QuantizeRow, Q4_1FindsTheLineThatValuesLieOn) {
  std::vector<float> values;
  for (int k = 0; k < 32; ++k) values.push_back(-2.0f + 0.5f * static_cast<float>(k * 7 % 16));
  const std::vector<uint8_t> blocks = Quantize(values, TensorType::kQ4_1);
  EXPECT_EQ(LoadU16(blocks.data()), FloatToHalf(0.5f));
  EXPECT_EQ(LoadU16(blocks.data() + 2), FloatToHalf(-2.0f));
  for (int k = 0; k < 16; ++k) EXPECT_EQ(blocks[static_cast<size_t>(4 + k)], k * 7 % 16 * 0x11) << k;
}

TEST(QuantizeRow, Q8_0IsWithinHalfAStepOfEveryValue) {
  SeededRandom random(kSeed);
  for (const float limit : {1e-3f, 0.1f, 3.0f}) {
    const std::vector<float> values = RandomFloats(random, 4096, limit);
    const std::vector<float> got = Dequantize(Quantize(values, TensorType::kQ8_0), TensorType::kQ8_0, values.size());
    // The scale is rounded to 11 bits.
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(got[i], values[i], limit * (0.5f / 127 + 1e-3f)) << i;
  }
}

// Sum of squared errors of a group on the line from its minimum to its maximum.
double ErrorOfPlainLine(const float* x) {
  const auto [low, high] = std::minmax_element(x, x + kGroup);
  const double step = (static_cast<double>(*high) - *low) / 15;
  double error = 0;
  for (int k = 0; k < kGroup; ++k) error += std::pow(*low + step * std::round((x[k] - *low) / step) - x[k], 2);
  return error;
}

TEST(QuantizeRow, Q4_1IsCloserThanTheLineFromMinimumToMaximum) {
  SeededRandom random(kSeed);
  double total = 0;
  double total_plain = 0;
  std::vector<float> values(kGroup);
  for (int group = 0; group < 2000; ++group) {
    // A cube has outliers, as weights have.
    for (float& x : values) x = std::pow(RandomFloat(random, 0.5f), 3.0f);
    const std::vector<float> got = Dequantize(Quantize(values, TensorType::kQ4_1), TensorType::kQ4_1, kGroup);
    double error = 0;
    for (size_t k = 0; k < kGroup; ++k) error += std::pow(static_cast<double>(got[k]) - values[k], 2);
    const double plain = ErrorOfPlainLine(values.data());
    // Scale and minimum are rounded to 11 bits.
    ASSERT_LE(error, 1.02 * plain) << group;
    total += error;
    total_plain += plain;
  }
  EXPECT_LT(total, 0.9 * total_plain);
}

TEST(QuantizeRow, GivesTheSameBlocksOfWhatItsBlocksStandFor) {
  SeededRandom random(kSeed);
  const std::vector<float> values = RandomFloats(random, 4096, 0.1f);
  const std::vector<uint8_t> blocks = Quantize(values, TensorType::kQ8_0);
  EXPECT_EQ(Quantize(Dequantize(blocks, TensorType::kQ8_0, values.size()), TensorType::kQ8_0), blocks);
}

TEST(QuantizeRow, GivesFiniteWeightsWhateverTheFileHolds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float odd : {0.0f, 1e-12f, 1e-40f, kLargest, -kLargest, kInfinity, -kInfinity, std::nanf("")}) {
    for (const float others : {0.0f, 1.0f, odd}) {
      for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_1}) {
        std::vector<float> values(32, others);
        values[7] = odd;
        for (const float x : Dequantize(Quantize(values, type), type, values.size())) {
          ASSERT_TRUE(std::isfinite(x)) << odd << " among " << others;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine::kernels
