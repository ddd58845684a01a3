// Functions of libm that numerics need, of our own, so that they give the same bits with every libm and processor.
// Plain double arithmetic in a fixed order; errors below 1e-14 over the ranges named. Used for RoPE's table.
#ifndef BATON_ENGINE_KERNELS_TRIGONOMETRY_H_
#define BATON_ENGINE_KERNELS_TRIGONOMETRY_H_

namespace baton::engine::kernels {

struct SinCos {
  double sine;
  double cosine;
};

// 0 <= x < 2^22.
SinCos SineCosine(double x);

// 1 / base^exponent, base in [1, 1e12], exponent in [0, 1].
double InversePower(double base, double exponent);

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_TRIGONOMETRY_H_
