#include <cmath>

#include "engine/kernels/half.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/testing/every_table.h"

namespace baton::engine::kernels {
namespace {

using modelfile::TensorType;

class MatmulKernels : public EveryTable {};

INSTANTIATE_TEST_SUITE_P(Tables, MatmulKernels, AllTables(), TableName);

constexpr TensorType kTypes[] = {TensorType::kF32,  TensorType::kF16,  TensorType::kBf16, TensorType::kQ8_0,
                                 TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ4_K,
                                 TensorType::kQ5_K, TensorType::kQ6_K};

// Where a block's f16 scale and minimum lie, or -1. What is neither is quants and factors.
struct HalfOffsets {
  int scale = 0;
  int minimum = -1;
};

HalfOffsets OffsetsOf(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ6_K:
      return {208, -1};
    default:
      return {0, -1};
  }
}

int BlockElements(TensorType type) { return modelfile::TensorBlockElements(type); }

// A tensor of random weights with its own bytes.
struct RandomTensor {
  RandomTensor(TensorType type, int rows, int cols, RandomSource& random) {
    const size_t block = modelfile::TensorBlockBytes(type);
    const size_t blocks = static_cast<size_t>(rows) * static_cast<size_t>(cols / modelfile::TensorBlockElements(type));
    data.resize(blocks * block);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(random.Next64());
    for (size_t i = 0; i < blocks; ++i) {
      uint8_t* const p = data.data() + i * block;
      const uint16_t half = static_cast<uint16_t>(0x1800 | (random.Next64() & 0x83ff));
      const float value = RandomFloat(random, 0.5f);
      // The K formats subtract their minima.
      const uint16_t sign = type == TensorType::kQ4_1 ? 0x8000 : 0;
      const uint16_t minimum = static_cast<uint16_t>(0x2400 | sign | (random.Next64() & 0x3ff));
      const uint16_t short_value = FloatToBf16(value);
      if (type == TensorType::kF32) {
        std::memcpy(p, &value, 4);
      } else {
        std::memcpy(p + OffsetsOf(type).scale, type == TensorType::kBf16 ? &short_value : &half, 2);
      }
      if (OffsetsOf(type).minimum >= 0) std::memcpy(p + OffsetsOf(type).minimum, &minimum, 2);
    }
    view = {.name = "w", .type = type, .rows = rows, .cols = cols, .data = data.data(), .bytes = data.size()};
  }
  std::vector<uint8_t> data;
  modelfile::TensorView view;
};

struct Packed {
  Packed(const RandomTensor& tensor, WeightFormat format, RowOrder order = {})
      : matrix(ShapeOf(format, static_cast<int>(tensor.view.rows), static_cast<int>(tensor.view.cols))),
        storage(matrix.bytes()) {
    matrix.data = storage.data();
    PackBlocks({.tensor = &tensor.view, .type = tensor.view.type, .order = order}, 0, matrix.col_blocks, matrix);
  }
  PackedMatrix matrix;
  AlignedBuffer storage;
};

// Activations of `rows` rows in both shapes; slots beyond the rows hold rubbish.
struct Acts {
  Acts(int rows, int depth, RandomSource& random) : x(RandomFloats(random, static_cast<size_t>(rows * depth), 2.0f)) {
    const int tiles = (rows + kLanes - 1) / kLanes;
    quant.resize(static_cast<size_t>(tiles * depth / kGroup));
    std::memset(quant.data(), 0x7f, quant.size() * sizeof(QuantGroup));
    values.assign(static_cast<size_t>(tiles * depth * kLanes), NAN);
    for (int r = 0; r < rows; ++r) {
      const size_t tile = static_cast<size_t>(r / kLanes);
      kScalarKernels.quantize(x.data() + r * depth, depth / kGroup, quant.data() + tile * depth / kGroup, r % kLanes);
      for (int k = 0; k < depth; ++k)
        values[(tile * depth + k) * kLanes + r % kLanes] = x[static_cast<size_t>(r * depth + k)];
    }
  }
  std::vector<float> x;
  std::vector<QuantGroup> quant;
  std::vector<float> values;
};

std::vector<float> Multiply(const KernelTable& table, const PackedMatrix& m, const Acts& acts, int rows) {
  std::vector<float> out(static_cast<size_t>(m.col_blocks * rows * kLanes), -1.0f);
  if (m.quantized()) {
    table.matmul_quant({.format = m.format,
                        .groups = m.cols / kGroup,
                        .rows = rows,
                        .col_blocks = m.col_blocks,
                        .acts = acts.quant.data(),
                        .weights = m.data,
                        .block_stride = m.block_stride,
                        .out = out.data()});
  } else {
    table.matmul_float({.format = m.format,
                        .depth = m.cols,
                        .rows = rows,
                        .col_blocks = m.col_blocks,
                        .acts = acts.values.data(),
                        .weights = m.data,
                        .block_stride = m.block_stride,
                        .out = out.data()});
  }
  return out;
}

TEST_P(MatmulKernels, ProductEqualsTheDefinitionForEveryFormatAndShape) {
  SeededRandom random(kSeed);
  for (const TensorType type : kTypes) {
    for (const int depth : {32, 64, 96, 256, 576, 1536}) {
      if (depth % BlockElements(type) != 0) continue;
      for (const int cols : {16, 40, 112}) {
        const RandomTensor tensor(type, cols, depth, random);
        const Packed packed(tensor, FormatOf(type));
        for (const int rows : {1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33, 64}) {
          if (depth > 100 && (cols > 40 || rows % 8 == 7)) continue;
          const Acts acts(rows, depth, random);
          EXPECT_EQ(FirstDifference(Multiply(table(), packed.matrix, acts, rows),
                                    Multiply(kScalarKernels, packed.matrix, acts, rows)),
                    -1)
              << TensorTypeName(type) << " depth " << depth << " columns " << cols << " rows " << rows;
        }
      }
    }
  }
}

TEST_P(MatmulKernels, ExtremeWeightsAndActivationsDoNotOverflow) {
  SeededRandom random(kSeed);
  for (const TensorType type : kTypes) {
    if (FormatOf(type) > WeightFormat::kQ8_0) continue;
    // 0x80 in every byte is the largest factor of Q6_K with the least weight.
    for (const int fill : {0x00, 0x7f, 0x80, 0x81, 0xff}) {
      const int depth = std::max(64, BlockElements(type));
      RandomTensor tensor(type, 16, depth, random);
      const size_t block = modelfile::TensorBlockBytes(type);
      const HalfOffsets halves = OffsetsOf(type);
      for (size_t i = 0; i < tensor.data.size(); ++i) {
        const int at = static_cast<int>(i % block);
        const bool is_half = at / 2 * 2 == halves.scale || at / 2 * 2 == halves.minimum;
        if (!is_half) tensor.data[i] = static_cast<uint8_t>(fill);
      }
      if (type == TensorType::kQ6_K) {
        for (size_t i = 0; i < tensor.data.size(); i += block) std::memset(&tensor.data[i + 192], 0x80, 16);
      }
      const Packed packed(tensor, FormatOf(type));
      for (const int sign : {-1, 1}) {
        // Tall enough for every way that a kernel has.
        constexpr int kRows = 17;
        Acts acts(kRows, depth, random);
        for (QuantGroup& g : acts.quant) {
          for (int r = 0; r < kLanes; ++r) {
            std::memset(g.q[r], 127 * sign, kGroup);
            g.neg8_sum[r] = -8 * 127 * sign * kGroup;
            g.neg8_halves[r][0] = g.neg8_halves[r][1] = static_cast<int16_t>(g.neg8_sum[r] / 2);
          }
        }
        EXPECT_EQ(FirstDifference(Multiply(table(), packed.matrix, acts, kRows),
                                  Multiply(kScalarKernels, packed.matrix, acts, kRows)),
                  -1)
            << TensorTypeName(type) << " fill " << fill << " sign " << sign;
      }
    }
  }
}

TEST_P(MatmulKernels, ProductIsNearTheDotOfDequantizedValues) {
  SeededRandom random(kSeed);
  constexpr int kRows = 3, kCols = 40;
  for (const TensorType type : kTypes) {
    const int depth = std::max(96, BlockElements(type));
    const RandomTensor tensor(type, kCols, depth, random);
    const Packed packed(tensor, FormatOf(type));
    const Acts acts(kRows, depth, random);
    const std::vector<float> out = Multiply(table(), packed.matrix, acts, kRows);
    for (int n = 0; n < kCols; ++n) {
      std::vector<float> w(static_cast<size_t>(depth));
      DequantizeRow(tensor.view, n, w.data());
      for (int r = 0; r < kRows; ++r) {
        double want = 0, size = 0;
        for (int k = 0; k < depth; ++k) {
          const double x = packed.matrix.quantized()
                               ? static_cast<double>(acts.quant[static_cast<size_t>(k / kGroup)].q[r][k % kGroup]) *
                                     acts.quant[static_cast<size_t>(k / kGroup)].scale[r]
                               : static_cast<double>(acts.x[static_cast<size_t>(r * depth + k)]);
          want += x * w[static_cast<size_t>(k)];
          size += std::abs(x * w[static_cast<size_t>(k)]);
        }
        EXPECT_NEAR(out[static_cast<size_t>((n / kLanes * kRows + r) * kLanes + n % kLanes)], want, size * 1e-5)
            << TensorTypeName(type);
      }
    }
  }
}

TEST_P(MatmulKernels, ARowDoesNotDependOnItsNeighbours) {
  SeededRandom random(kSeed);
  // 16 + 8 + 4 + 2 + 1: every height of a register tile.
  constexpr int kRows = 31;
  for (const TensorType type : kTypes) {
    const int depth = std::max(64, BlockElements(type));
    const RandomTensor tensor(type, 32, depth, random);
    const Packed packed(tensor, FormatOf(type));
    const Acts many(kRows, depth, random);
    const std::vector<float> all = Multiply(table(), packed.matrix, many, kRows);
    for (int r = 0; r < kRows; ++r) {
      Acts one(1, depth, random);
      const size_t tile = static_cast<size_t>(r / kLanes);
      kScalarKernels.quantize(many.x.data() + r * depth, depth / kGroup, one.quant.data(), 0);
      for (int k = 0; k < depth; ++k) {
        one.values[static_cast<size_t>(k * kLanes)] = many.values[(tile * depth + k) * kLanes + r % kLanes];
      }
      const std::vector<float> alone = Multiply(table(), packed.matrix, one, 1);
      for (int b = 0; b < 2; ++b) {
        EXPECT_EQ(FirstDifference(&all[static_cast<size_t>((b * kRows + r) * kLanes)],
                                  &alone[static_cast<size_t>(b * kLanes)], kLanes),
                  -1)
            << TensorTypeName(type) << " row " << r;
      }
    }
  }
}

TEST(PackedMatrix, RowsComeBackAsTheyWere) {
  SeededRandom random(kSeed);
  constexpr int kCols = 40;
  for (const TensorType type : kTypes) {
    const int depth = 2 * std::max(32, BlockElements(type));
    const RandomTensor tensor(type, kCols, depth, random);
    for (const WeightFormat format : {FormatOf(type), WeightFormat::kF32}) {
      const Packed packed(tensor, format);
      for (int n = 0; n < kCols; ++n) {
        std::vector<float> want(static_cast<size_t>(depth)), got(want);
        DequantizeRow(tensor.view, n, want.data());
        UnpackRow(packed.matrix, n, got.data());
        EXPECT_EQ(FirstDifference(got, want), -1) << TensorTypeName(type) << " row " << n;
      }
    }
  }
}

TEST(PackedMatrix, SplitHeadsBringRopePartnersTogether) {
  SeededRandom random(kSeed);
  const RandomTensor tensor(TensorType::kF32, 64, 32, random);
  const Packed packed(tensor, WeightFormat::kF32, RowOrder{32});
  std::vector<float> want(32), got(32);
  // Row 2 of head 1 in the packed order is element 1 of that head, row 3 its partner 16 further.
  for (const auto& [packed_row, file_row] : {std::pair{32 + 2, 32 + 1}, std::pair{32 + 3, 32 + 17}, std::pair{0, 0}}) {
    DequantizeRow(tensor.view, file_row, want.data());
    UnpackRow(packed.matrix, packed_row, got.data());
    EXPECT_EQ(FirstDifference(got, want), -1) << packed_row;
  }
}

}  // namespace
}  // namespace baton::engine::kernels
