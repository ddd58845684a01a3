// exp and log whose bits are the same on every machine, compiler and instruction set: additions, multiplications and
// one division in a fixed order, nothing from libm. Fused multiply-adds are left out because std::fma is a library call
// on machines without them; the tree is built with -ffp-contract=off, so the compiler adds none either.
//
// DetExp works on a float or on a vector of floats (vector extension of GCC and Clang): each lane gets the bits that
// the scalar gets. Pure functions, any thread; rounding mode to nearest.
#ifndef BATON_COMMON_DET_MATH_H_
#define BATON_COMMON_DET_MATH_H_

#include <cstdint>
#include <cstring>

namespace baton {

// Four floats or integers that travel together; SSE2, NEON and every larger set have them in one register.
using DetFloat4 = float __attribute__((vector_size(16)));
using DetInt4 = int32_t __attribute__((vector_size(16)));

namespace internal {

template <typename To, typename From>
inline To DetBits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// `F` is float or a vector of it, `I` the integers of the same shape.
template <typename F, typename I>
inline F DetExpImpl(F x) {
  constexpr float kLog2E = 1.44269504f;
  // log(2) in two parts; the first has 9 significant bits, so its product with n is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  // Adding and subtracting 1.5 * 2^23 rounds to an integer.
  constexpr float kRound = 12582912.0f;
  const F n = (x * kLog2E + kRound) - kRound;
  const F r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor's series: |r| <= 0.3466, so the term of order 8 is below half an ulp of 1.
  F p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The low bits of n + kRound are n + 0x400000 in two's complement: n moves into the exponent by an integer addition.
  const I exponent = DetBits<I>(F(n + kRound)) << 23;
  return DetBits<F>(I(DetBits<I>(p) + exponent));
}

}  // namespace internal

// Smallest argument of DetExp4; DetExp takes any.
inline constexpr float kDetExpMin = -87.0f;
inline constexpr float kDetExpMax = 88.0f;

// Every lane must be in [kDetExpMin, kDetExpMax]. Within 2 ulp of the true value.
inline DetFloat4 DetExp4(DetFloat4 x) { return internal::DetExpImpl<DetFloat4, DetInt4>(x); }

// 0 below kDetExpMin; above kDetExpMax the value at it; NaN gives 0.
inline float DetExp(float x) {
  if (!(x >= kDetExpMin)) return 0.0f;
  return internal::DetExpImpl<float, uint32_t>(x > kDetExpMax ? kDetExpMax : x);
}

// Natural logarithm of a positive, finite, normal number; within 4 ulp.
inline double DetLog(double x) {
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const uint64_t bits = internal::DetBits<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = internal::DetBits<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // log(m) = 2 artanh(s), |s| < 0.172: the series' twelfth term is below 2^-60.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 1.0 / 23;
  for (int k = 21; k >= 3; k -= 2) sum = sum * z + 1.0 / k;
  const double series = 2.0 * s + 2.0 * s * (z * sum);
  const double e = static_cast<double>(exponent);
  return e * kLn2High + (e * kLn2Low + series);
}

}  // namespace baton

#endif  // BATON_COMMON_DET_MATH_H_
