#include "engine/cuda/kernels/testing/reference.h"

#include "engine/kernels/half.h"

namespace baton::engine::cuda {
namespace {

void StoreBf16(HostMatrix& matrix) {
  const std::vector<Bf16> halves = ToBf16(matrix.meant);
  matrix.values.resize(halves.size() * sizeof(Bf16));
  std::memcpy(matrix.values.data(), halves.data(), matrix.values.size());
}

uint32_t PairOf(float low, float high) {
  return kernels::FloatToHalf(low) | static_cast<uint32_t>(kernels::FloatToHalf(high)) << 16;
}

uint16_t FactorsOf(int low, int high) {
  return static_cast<uint16_t>(static_cast<uint8_t>(low) | static_cast<uint8_t>(high) << 8);
}

// Draws pairs of f16, and factors where the matrix has them.
void DrawScales(HostMatrix& matrix, bool has_factors, bool whole, RandomSource& random) {
  const size_t elements = matrix.meant.size();
  const auto draw = [&](uint64_t below) { return static_cast<int>(random.Below(below)); };
  if (has_factors) {
    matrix.factors.resize(elements / static_cast<size_t>(ElementsOfFactors(matrix.format)));
    for (uint16_t& x : matrix.factors) {
      x = whole ? FactorsOf(1 + draw(2), -draw(4)) : FactorsOf(draw(256) - 128, draw(256) - 128);
    }
  } else if (matrix.format == WeightFormat::kInt4 && draw(2) == 0) {
    matrix.factor = FactorsOf(1, -8);
  }
  matrix.scales.resize(elements / (has_factors ? kSuperGroup : kGroup));
  for (uint32_t& pair : matrix.scales) {
    const float scale = whole ? static_cast<float>(1 + draw(2)) : RandomFloat(random, 0.1f);
    const float minimum = whole ? -static_cast<float>(draw(4)) : RandomFloat(random, 0.5f);
    pair = PairOf(scale, matrix.factor == 0x0101 ? minimum : scale);
    if (has_factors) pair = whole ? PairOf(1.0f, 1.0f) : PairOf(scale / 64, minimum / 64);
  }
}

float TimesByte(uint32_t half, int byte) {
  return kernels::HalfToFloat(static_cast<uint16_t>(half)) * static_cast<float>(static_cast<int8_t>(byte));
}

// By the definition of params.h.
float ValueOf(const HostMatrix& matrix, size_t i, int q) {
  const bool refined = !matrix.factors.empty();
  const uint32_t pair = matrix.scales[i / (refined ? kSuperGroup : kGroup)];
  const uint16_t factors =
      refined ? matrix.factors[i / static_cast<size_t>(ElementsOfFactors(matrix.format))] : matrix.factor;
  return RoundToBf16(std::fma(TimesByte(pair, factors), static_cast<float>(q), TimesByte(pair >> 16, factors >> 8)));
}

// Draws scales and q, and fills the rest.
void Quantize(HostMatrix& matrix, bool has_factors, bool whole, RandomSource& random) {
  const bool is_int4 = matrix.format == WeightFormat::kInt4;
  const size_t elements = matrix.meant.size();
  DrawScales(matrix, has_factors, whole, random);
  matrix.values.resize(is_int4 ? elements / 2 : elements);
  for (size_t i = 0; i < elements; ++i) {
    int q = static_cast<int>(random.Below(is_int4 ? 16 : 256)) - (is_int4 ? 0 : 128);
    if (whole) q = static_cast<int>(random.Below(8)) - (is_int4 ? 0 : 4);
    if (is_int4) {
      matrix.values[i / 2] = static_cast<uint8_t>(matrix.values[i / 2] | q << (i % 2 * 4));
    } else {
      matrix.values[i] = static_cast<uint8_t>(static_cast<int8_t>(q));
    }
    matrix.meant[i] = ValueOf(matrix, i, q);
  }
}

// By the definition of the type, without a detour by halves.
float ValueOfFp8(uint8_t byte) {
  const int exponent = byte >> 3 & 15;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(byte & 7), -9)
                                   : std::ldexp(static_cast<float>(8 + (byte & 7)), exponent - 10);
  return (byte & 0x80) != 0 ? -size : size;
}

// Draws scales and elements: whole numbers up to 8 and scales of 1 and 2, or anything but NaN and scales of 24 bits.
void DrawFp8(HostMatrix& matrix, bool whole, RandomSource& random) {
  const uint8_t of_whole[] = {0x00, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50};
  const size_t k = static_cast<size_t>(matrix.k), of_row = static_cast<size_t>(Fp8ScalesOfRow(matrix.k));
  matrix.scales.resize(static_cast<size_t>(matrix.n) * of_row);
  for (uint32_t& bits : matrix.scales) {
    bits = std::bit_cast<uint32_t>(whole ? static_cast<float>(1 + random.Below(2))
                                         : std::abs(RandomFloat(random, 0x1p-8f)));
  }
  matrix.values.resize(matrix.meant.size());
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    uint8_t byte = static_cast<uint8_t>(random.Next64());
    if ((byte & 0x7f) == 0x7f) byte ^= 1;
    if (whole) byte = static_cast<uint8_t>(of_whole[random.Below(std::size(of_whole))] | (byte & 0x80));
    matrix.values[i] = byte;
    const float scale = std::bit_cast<float>(matrix.scales[i / k * of_row + i % k / kFp8Group]);
    matrix.meant[i] = RoundToBf16(scale * ValueOfFp8(byte));
  }
}

}  // namespace

HostMatrix HostMatrix::AsBf16() const {
  HostMatrix matrix{
      .format = WeightFormat::kBf16, .n = n, .k = k, .values = {}, .scales = {}, .factors = {}, .meant = meant};
  StoreBf16(matrix);
  return matrix;
}

HostMatrix RandomMatrix(const WeightKind& kind, int n, int k, bool whole, RandomSource& random) {
  HostMatrix matrix{.format = kind.format, .n = n, .k = k, .values = {}, .scales = {}, .factors = {}, .meant = {}};
  matrix.meant.resize(static_cast<size_t>(n) * static_cast<size_t>(k));
  if (kind.format == WeightFormat::kFp8) {
    DrawFp8(matrix, whole, random);
    return matrix;
  }
  if (kind.format != WeightFormat::kBf16) {
    Quantize(matrix, kind.has_factors && k % kSuperGroup == 0, whole, random);
    return matrix;
  }
  for (float& x : matrix.meant) {
    x = whole ? static_cast<float>(random.Below(17)) - 8.0f : RoundToBf16(RandomFloat(random, 0.5f));
  }
  StoreBf16(matrix);
  return matrix;
}

}  // namespace baton::engine::cuda
