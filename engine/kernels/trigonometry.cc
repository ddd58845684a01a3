#include "engine/kernels/trigonometry.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace baton::engine::kernels {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

// Natural logarithm of x >= 1: x = 2^n * m, m in [1, 2), log m = 2 atanh((m - 1) / (m + 1)).
double Log(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const int n = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
  double m;
  std::memcpy(&m, &bits, sizeof(m));
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double sum = 0;
  // z <= 1/3: z^40 / 41 is below 1e-20.
  for (int k = 41; k >= 1; k -= 2) sum = std::fma(sum, z2, 1.0 / k);
  return std::fma(n, kLn2, 2 * z * sum);
}

// exp(x) for |x| < 700.
double Exp(double x) {
  const double n = std::floor(x / kLn2 + 0.5);
  const double r = std::fma(n, -kLn2, x);
  double sum = 1;
  for (int k = 18; k >= 1; --k) sum = std::fma(sum, r / k, 1.0);
  return std::ldexp(sum, static_cast<int>(n));
}

}  // namespace

SinCos SineCosine(double x) {
  // pi / 2 in two parts; the multiples stay below 2^22, so the remainder's error is below 1e-25 * 2^22.
  constexpr double kHigh = 1.57079632679489655800;
  constexpr double kLow = 6.12323399573676603587e-17;
  const double n = std::floor(x / kHigh + 0.5);
  const double r = std::fma(n, -kLow, std::fma(n, -kHigh, x));
  const double r2 = r * r;
  // Taylor to r^19 and r^18 for |r| <= pi / 4: below 1e-18.
  double s = 1;
  for (int k = 18; k >= 2; k -= 2) s = std::fma(s, -r2 / (k * (k + 1)), 1.0);
  s *= r;
  double c = 1;
  for (int k = 18; k >= 2; k -= 2) c = std::fma(c, -r2 / (k * (k - 1)), 1.0);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

double InversePower(double base, double exponent) { return Exp(-exponent * Log(base)); }

}  // namespace baton::engine::kernels
