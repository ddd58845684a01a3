// The words of params.h as plain C++, for the kernels' tests.
#ifndef BATON_ENGINE_CUDA_KERNELS_TESTING_REFERENCE_H_
#define BATON_ENGINE_CUDA_KERNELS_TESTING_REFERENCE_H_

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/random.h"
#include "engine/cuda/kernels/params.h"

namespace baton::engine::cuda {

inline float ToFloat(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

// To nearest even; every NaN becomes 0x7fff.
inline Bf16 ToBf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<Bf16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float RoundToBf16(float x) { return ToFloat(ToBf16(x)); }

// Uniform in [-limit, limit).
inline float RandomFloat(RandomSource& random, float limit) {
  return limit * (static_cast<float>(random.Next64() >> 40) * 0x1p-23f - 1.0f);
}

inline std::vector<float> RandomFloats(RandomSource& random, size_t n, float limit) {
  std::vector<float> out(n);
  for (float& x : out) x = RandomFloat(random, limit);
  return out;
}

inline std::vector<Bf16> ToBf16(const std::vector<float>& x) {
  std::vector<Bf16> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = ToBf16(x[i]);
  return out;
}

inline std::vector<float> ToFloat(const std::vector<Bf16>& x) {
  std::vector<float> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = ToFloat(x[i]);
  return out;
}

// Index of the first element that differs in a bit, or -1. NaNs of any bits are equal.
inline int64_t FirstDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

template <typename T>
int64_t FirstDifference(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return static_cast<int64_t>(i);
  }
  return -1;
}

// How many bf16 lie between two, NaNs being equal to each other and far from all else.
inline int Bf16Distance(Bf16 a, Bf16 b) {
  const auto order = [](Bf16 x) { return (x & 0x8000) != 0 ? -static_cast<int>(x & 0x7fff) : static_cast<int>(x); };
  const bool a_is_nan = std::isnan(ToFloat(a)), b_is_nan = std::isnan(ToFloat(b));
  if (a_is_nan || b_is_nan) return a_is_nan && b_is_nan ? 0 : 1 << 16;
  return std::abs(order(a) - order(b));
}

// Bits behind the leading one.
inline constexpr int kFloatBits = 23;
inline constexpr int kBf16Bits = 7;

// A distance in ulps: units of the last place that a number of this magnitude, which is not zero, has.
inline double InUlps(double distance, double magnitude, int bits) {
  return std::abs(distance) / std::ldexp(1.0, std::ilogb(magnitude) - bits);
}

// Fold of lanes: i with i + n / 2, and so on.
inline float FoldTree(std::vector<float> lanes) {
  for (size_t width = lanes.size() / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }
  return lanes[0];
}

// 1 / sqrt(mean(x^2) + epsilon), element i in lane i / per_lane mod lanes.
inline float RootOfMean(const float* x, int n, int lanes, int per_lane, float epsilon) {
  std::vector<float> squares(static_cast<size_t>(lanes));
  for (int i = 0; i < n; ++i) {
    float& lane = squares[static_cast<size_t>(i / per_lane % lanes)];
    lane = std::fma(x[i], x[i], lane);
  }
  return 1.0f / std::sqrt(FoldTree(squares) / static_cast<float>(n) + epsilon);
}

// A weight matrix as a format stores it, with the values that it stands for.
struct HostMatrix {
  WeightFormat format;
  int n;
  int k;
  std::vector<uint8_t> values;
  std::vector<uint32_t> scales;   // of kFp8 the bits of f32
  std::vector<uint16_t> factors;  // empty: every element's are `factor`
  uint16_t factor = 0x0101;
  std::vector<float> meant;  // [n][k], each a bf16

  float At(int row, int column) const {
    return meant[static_cast<size_t>(row) * static_cast<size_t>(k) + static_cast<size_t>(column)];
  }
  // The bf16 matrix of the same values.
  HostMatrix AsBf16() const;
};

// A format, with factors of its own where k allows them.
struct WeightKind {
  WeightFormat format;
  bool has_factors = false;
};
inline constexpr WeightKind kWeightKinds[] = {{WeightFormat::kBf16},       {WeightFormat::kInt8},
                                              {WeightFormat::kInt8, true}, {WeightFormat::kInt4},
                                              {WeightFormat::kInt4, true}, {WeightFormat::kFp8}};

// Random weights. Where `whole` is set, every value is an integer within +-16, so that short sums are exact.
HostMatrix RandomMatrix(const WeightKind& kind, int n, int k, bool whole, RandomSource& random);

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_TESTING_REFERENCE_H_
