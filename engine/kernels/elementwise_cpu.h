// Norm, quantization, activation, rotation, exp: bodies over Simd. Included once by each instruction set's file.
#ifndef BATON_ENGINE_KERNELS_ELEMENTWISE_CPU_H_
#define BATON_ENGINE_KERNELS_ELEMENTWISE_CPU_H_

namespace baton::engine::kernels {
namespace {

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2, Taylor to degree 7 (relative error 5e-9).
BATON_INLINE Simd::F Exp(const Simd::F& x) {
  using F = Simd::F;
  const F clamped = Simd::Min(Simd::Max(x, Simd::Set1(-87.0f)), Simd::Set1(88.0f));
  const Simd::I n = Simd::ToInt(Simd::Mul(clamped, Simd::Set1(1.44269504088896341f)));
  const F whole = Simd::ToFloat(n);
  // ln 2 in two parts; the first has few bits, so whole * high is exact.
  F r = Simd::Fma(whole, Simd::Set1(-0.693359375f), clamped);
  r = Simd::Fma(whole, Simd::Set1(2.12194440e-4f), r);
  F p = Simd::Set1(1.0f / 5040);
  p = Simd::Fma(p, r, Simd::Set1(1.0f / 720));
  p = Simd::Fma(p, r, Simd::Set1(1.0f / 120));
  p = Simd::Fma(p, r, Simd::Set1(1.0f / 24));
  p = Simd::Fma(p, r, Simd::Set1(1.0f / 6));
  p = Simd::Fma(p, r, Simd::Set1(0.5f));
  p = Simd::Fma(p, r, Simd::Set1(1.0f));
  p = Simd::Fma(p, r, Simd::Set1(1.0f));
  return Simd::SelectLess(x, Simd::Set1(-87.0f), Simd::Zero(), Simd::Scale2(p, n));
}

void ExpArray(const float* x, int n, float* y) {
  for (int i = 0; i < n; i += kLanes) Simd::Store(y + i, Exp(Simd::Load(x + i)));
}

// Square root of one float, correctly rounded; not libm's, which may be compiled in for another machine.
BATON_INLINE float Sqrt(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

void RmsNorm(const float* x, const float* weight, int n, float eps, float* y) {
  Simd::F squares = Simd::Zero();
  for (int i = 0; i < n; i += kLanes) {
    const Simd::F v = Simd::Load(x + i);
    squares = Simd::Fma(v, v, squares);
  }
  const float mean = Simd::ReduceSum(squares) / static_cast<float>(n);
  const Simd::F r = Simd::Set1(1.0f / Sqrt(mean + eps));
  for (int i = 0; i < n; i += kLanes) {
    Simd::Store(y + i, Simd::Mul(Simd::Mul(Simd::Load(x + i), r), Simd::Load(weight + i)));
  }
}

BATON_INLINE Simd::I QuantizeLanes(const Simd::F& x, const Simd::F& inverse) {
  const Simd::F scaled = Simd::Mul(x, inverse);
  return Simd::ToInt(Simd::Min(Simd::Max(scaled, Simd::Set1(-127.0f)), Simd::Set1(127.0f)));
}

// What values are multiplied by to become integers, and what those then stand for.
struct QuantScale {
  float inverse;
  float scale;
};

BATON_INLINE QuantScale QuantScaleOf(const Simd::F& magnitudes) {
  const float max = Simd::ReduceMax(magnitudes);
  if (!(max > 1e-30f)) return {0.0f, 0.0f};
  return {127.0f / max, max / 127.0f};
}

void Quantize(const float* x, int groups, QuantGroup* acts, int slot) {
  for (int g = 0; g < groups; ++g) {
    const Simd::F a = Simd::Load(x + g * kGroup);
    const Simd::F b = Simd::Load(x + g * kGroup + kLanes);
    const auto [inverse, scale] = QuantScaleOf(Simd::Max(Simd::Abs(a), Simd::Abs(b)));
    QuantGroup& out = acts[g];
    const Simd::I q = QuantizeLanes(a, Simd::Set1(inverse));
    const int32_t first = Simd::SumInts(q);
    const int32_t sum = Simd::StoreInt8AndSum(out.q[slot], q, QuantizeLanes(b, Simd::Set1(inverse)));
    out.scale[slot] = scale;
    out.scaled_sum[slot] = scale * static_cast<float>(sum);
    out.neg8_sum[slot] = -8 * sum;
    out.neg8_halves[slot][0] = static_cast<int16_t>(-8 * first);
    out.neg8_halves[slot][1] = static_cast<int16_t>(-8 * (sum - first));
  }
}

void QuantizeHead(const float* x, int n, int8_t* q, float* scale) {
  Simd::F magnitudes = Simd::Zero();
  for (int i = 0; i < n; i += kLanes) magnitudes = Simd::Max(Simd::Abs(Simd::Load(x + i)), magnitudes);
  const QuantScale of = QuantScaleOf(magnitudes);
  const Simd::F inverse = Simd::Set1(of.inverse);
  for (int i = 0; i < n; i += kGroup) {
    Simd::StoreInt8AndSum(q + i, QuantizeLanes(Simd::Load(x + i), inverse),
                          QuantizeLanes(Simd::Load(x + i + kLanes), inverse));
  }
  *scale = of.scale;
}

void SwiGlu(const float* gate, const float* up, int n, float* y) {
  const Simd::F one = Simd::Set1(1.0f);
  for (int i = 0; i < n; i += kLanes) {
    const Simd::F g = Simd::Load(gate + i);
    const Simd::F silu = Simd::Div(g, Simd::Add(one, Exp(Simd::Sub(Simd::Zero(), g))));
    Simd::Store(y + i, Simd::Mul(silu, Simd::Load(up + i)));
  }
}

void GeGlu(const float* gate, const float* up, int n, float* y) {
  const Simd::F one = Simd::Set1(1.0f);
  for (int i = 0; i < n; i += kLanes) {
    const Simd::F g = Simd::Load(gate + i);
    const Simd::F t = Simd::Fma(Simd::Mul(Simd::Set1(0.044715f), g), Simd::Mul(g, g), g);
    // -2 sqrt(2 / pi).
    const Simd::F e = Exp(Simd::Mul(Simd::Set1(-1.5957691216057308f), t));
    const Simd::F gelu = Simd::Div(g, Simd::Add(one, e));
    Simd::Store(y + i, Simd::Mul(gelu, Simd::Load(up + i)));
  }
}

void AddArray(float* x, const float* y, int n) {
  for (int i = 0; i < n; i += kLanes) Simd::Store(x + i, Simd::Add(Simd::Load(x + i), Simd::Load(y + i)));
}

void Rope(const float* x, const float* cosine, const float* sine, float* y) {
  const Simd::F v = Simd::Load(x);
  const Simd::F crossed = Simd::Mul(Simd::SwapPairs(v), Simd::Load(sine));
  Simd::Store(y, Simd::Fma(v, Simd::Load(cosine), crossed));
}

void ToBf16(const float* x, uint16_t* y) { Simd::StoreBf16(y, Simd::RoundBf16(Simd::Load(x))); }

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_ELEMENTWISE_CPU_H_
