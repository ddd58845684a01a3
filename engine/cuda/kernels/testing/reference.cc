#include "engine/cuda/kernels/testing/reference.h"

namespace baton::engine::cuda {
namespace {

void StoreBf16(HostMatrix& matrix) {
  const std::vector<Bf16> halves = ToBf16(matrix.meant);
  matrix.values.resize(halves.size() * sizeof(Bf16));
  std::memcpy(matrix.values.data(), halves.data(), matrix.values.size());
}

// Draws q, scale and minimum, and fills the rest.
void Quantize(HostMatrix& matrix, bool whole, RandomSource& random) {
  const bool is_int4 = matrix.format == WeightFormat::kInt4;
  const size_t elements = matrix.meant.size();
  const size_t group = is_int4 ? 32 : 16;
  matrix.scales.resize(elements / group * 2);
  for (size_t i = 0; i < elements / group; ++i) {
    matrix.scales[2 * i] = whole ? static_cast<float>(1 + random.Below(2)) : RandomFloat(random, 0.1f);
    matrix.scales[2 * i + 1] = whole ? -static_cast<float>(random.Below(4)) : RandomFloat(random, 0.5f);
  }
  matrix.values.resize(is_int4 ? elements / 2 : elements);
  for (size_t i = 0; i < elements; ++i) {
    int q = static_cast<int>(random.Below(is_int4 ? 16 : 256)) - (is_int4 ? 0 : 128);
    if (whole) q = static_cast<int>(random.Below(8)) - (is_int4 ? 0 : 4);
    if (is_int4) {
      matrix.values[i / 2] = static_cast<uint8_t>(matrix.values[i / 2] | q << (i % 2 * 4));
    } else {
      matrix.values[i] = static_cast<uint8_t>(static_cast<int8_t>(q));
    }
    const float* const scale = &matrix.scales[i / group * 2];
    matrix.meant[i] = RoundToBf16(std::fma(scale[0], static_cast<float>(q), scale[1]));
  }
}

}  // namespace

HostMatrix HostMatrix::AsBf16() const {
  HostMatrix matrix{.format = WeightFormat::kBf16, .n = n, .k = k, .values = {}, .scales = {}, .meant = meant};
  StoreBf16(matrix);
  return matrix;
}

HostMatrix RandomMatrix(WeightFormat format, int n, int k, bool whole, RandomSource& random) {
  HostMatrix matrix{.format = format, .n = n, .k = k, .values = {}, .scales = {}, .meant = {}};
  matrix.meant.resize(static_cast<size_t>(n) * static_cast<size_t>(k));
  if (format != WeightFormat::kBf16) {
    Quantize(matrix, whole, random);
    return matrix;
  }
  for (float& x : matrix.meant) {
    x = whole ? static_cast<float>(random.Below(17)) - 8.0f : RoundToBf16(RandomFloat(random, 0.5f));
  }
  StoreBf16(matrix);
  return matrix;
}

}  // namespace baton::engine::cuda
