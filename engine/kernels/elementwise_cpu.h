// Norm, quantization, activation, rotation, exp: bodies over Simd. Included once by each instruction set's file.
#ifndef BATON_ENGINE_KERNELS_ELEMENTWISE_CPU_H_
#define BATON_ENGINE_KERNELS_ELEMENTWISE_CPU_H_

namespace baton::engine::kernels {
namespace {

// p = the polynomial of r, given its coefficients from the highest power down. kCount vectors go through it step by
// step, because a single one would wait for each of its steps.
template <int kCount, int kTerms>
BATON_INLINE void Polynomial(const float (&coefficients)[kTerms], const Simd::F* r, Simd::F* p) {
  BATON_UNROLL for (int i = 0; i < kCount; ++i) p[i] = Simd::Set1(coefficients[0]);
  BATON_UNROLL for (int k = 1; k < kTerms; ++k) {
    BATON_UNROLL for (int i = 0; i < kCount; ++i) p[i] = Simd::Fma(p[i], r[i], Simd::Set1(coefficients[k]));
  }
}

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2, Taylor to degree 7 (relative error 5e-9).
template <int kCount>
BATON_INLINE void ExpEach(Simd::F* x) {
  using F = Simd::F;
  F r[kCount], p[kCount];
  Simd::I n[kCount];
  BATON_UNROLL for (int i = 0; i < kCount; ++i) {
    r[i] = Simd::Min(Simd::Max(x[i], Simd::Set1(-87.0f)), Simd::Set1(88.0f));
    n[i] = Simd::ToInt(Simd::Mul(r[i], Simd::Set1(1.44269504088896341f)));
  }
  BATON_UNROLL for (int i = 0; i < kCount; ++i) {
    const F whole = Simd::ToFloat(n[i]);
    // ln 2 in two parts; the first has few bits, so whole * high is exact.
    r[i] = Simd::Fma(whole, Simd::Set1(-0.693359375f), r[i]);
    r[i] = Simd::Fma(whole, Simd::Set1(2.12194440e-4f), r[i]);
  }
  constexpr float kTaylor[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  Polynomial<kCount>(kTaylor, r, p);
  BATON_UNROLL for (int i = 0; i < kCount; ++i) {
    x[i] = Simd::SelectLess(x[i], Simd::Set1(-87.0f), Simd::Zero(), Simd::Scale2(p[i], n[i]));
  }
}

// 2^x for x up to 0: 2^n * 2^r, n = round(x), |r| <= 1/2. Below -125 it is 2^-125. When precise, 2^r is Taylor to degree
// 7 (relative error 5e-9). Otherwise it is the polynomial of degree 3 that errs least among those that are 1 at 0
// (1e-4, where rounding to bf16 errs by 2e-3).
template <bool kPrecise, int kCount>
BATON_INLINE void Exp2Each(Simd::F* x) {
  constexpr float kTaylor[] = {1.52527338e-5f, 1.54035304e-4f, 1.33335581e-3f, 9.61812911e-3f,
                               0.0555041087f,  0.240226507f,   0.693147181f,   1.0f};
  constexpr float kShort[] = {0.0550089329f, 0.242210969f, 0.693282902f, 1.0f};
  Simd::F r[kCount], p[kCount];
  Simd::I n[kCount];
  BATON_UNROLL for (int i = 0; i < kCount; ++i) {
    x[i] = Simd::Max(x[i], Simd::Set1(-125.0f));
    n[i] = Simd::ToInt(x[i]);
  }
  BATON_UNROLL for (int i = 0; i < kCount; ++i) r[i] = Simd::Sub(x[i], Simd::ToFloat(n[i]));
  if constexpr (kPrecise) {
    Polynomial<kCount>(kTaylor, r, p);
  } else {
    Polynomial<kCount>(kShort, r, p);
  }
  BATON_UNROLL for (int i = 0; i < kCount; ++i) x[i] = Simd::Scale2(p[i], n[i]);
}

void ExpArray(const float* x, int n, float* y) {
  for (int i = 0; i < n; i += kLanes) {
    Simd::F each = Simd::Load(x + i);
    ExpEach<1>(&each);
    Simd::Store(y + i, each);
  }
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

// By what the values of a group are multiplied to become integers, and the scale of these integers; for up to 16
// groups.
struct QuantScales {
  alignas(64) float inverse[kLanes];
  alignas(64) float scale[kLanes];
};

BATON_INLINE void QuantScalesOf(const float* max, QuantScales& of) {
  const Simd::F m = Simd::Load(max);
  const Simd::F least = Simd::Set1(1e-30f);
  const Simd::F divisor = Simd::SelectLess(least, m, m, Simd::Set1(1.0f));
  Simd::Store(of.inverse, Simd::SelectLess(least, m, Simd::Div(Simd::Set1(127.0f), divisor), Simd::Zero()));
  Simd::Store(of.scale, Simd::SelectLess(least, m, Simd::Div(m, Simd::Set1(127.0f)), Simd::Zero()));
}

// A row's part of one group: its two halves, and its destination.
struct GroupRow {
  const float* first;
  const float* last;
  QuantGroup& out;
  int slot;
};

// Quantizes at(0) .. at(count - 1), up to 16 parts, whose scales are divided together.
template <typename At>
BATON_INLINE void QuantizeTogether(int count, At at) {
  alignas(64) float max[kLanes] = {};
  for (int i = 0; i < count; ++i) {
    const GroupRow row = at(i);
    max[i] = Simd::ReduceMax(Simd::Max(Simd::Abs(Simd::Load(row.first)), Simd::Abs(Simd::Load(row.last))));
  }
  QuantScales of;
  QuantScalesOf(max, of);
  for (int i = 0; i < count; ++i) {
    const GroupRow row = at(i);
    const Simd::F inverse = Simd::Set1(of.inverse[i]);
    int32_t sums[2];
    Simd::StoreInt8(row.out.q[row.slot], QuantizeLanes(Simd::Load(row.first), inverse),
                    QuantizeLanes(Simd::Load(row.last), inverse), sums);
    row.out.scale[row.slot] = of.scale[i];
    row.out.scaled_sum[row.slot] = of.scale[i] * static_cast<float>(sums[0] + sums[1]);
    row.out.neg8_sum[row.slot] = -8 * (sums[0] + sums[1]);
    row.out.neg8_halves[row.slot][0] = static_cast<int16_t>(-8 * sums[0]);
    row.out.neg8_halves[row.slot][1] = static_cast<int16_t>(-8 * sums[1]);
  }
}

void Quantize(const float* x, int groups, QuantGroup* acts, int slot) {
  for (int g = 0; g < groups; g += kLanes) {
    QuantizeTogether(groups - g < kLanes ? groups - g : kLanes, [&](int i) {
      const float* const from = x + (g + i) * kGroup;
      return GroupRow{from, from + kLanes, acts[g + i], slot};
    });
  }
}

void QuantizeTile(const float* first, const float* last, int rows, QuantGroup& out) {
  QuantizeTogether(rows, [&](int r) { return GroupRow{first + r * kLanes, last + r * kLanes, out, r}; });
}

void QuantizeHead(const float* x, int n, int8_t* q, float* scale) {
  Simd::F magnitudes = Simd::Zero();
  for (int i = 0; i < n; i += kLanes) magnitudes = Simd::Max(Simd::Abs(Simd::Load(x + i)), magnitudes);
  alignas(64) const float max[kLanes] = {Simd::ReduceMax(magnitudes)};
  QuantScales of;
  QuantScalesOf(max, of);
  const Simd::F inverse = Simd::Set1(of.inverse[0]);
  for (int i = 0; i < n; i += kGroup) {
    int32_t sums[2];
    Simd::StoreInt8(q + i, QuantizeLanes(Simd::Load(x + i), inverse),
                    QuantizeLanes(Simd::Load(x + i + kLanes), inverse), sums);
  }
  *scale = of.scale[0];
}

// y = gate / (1 + exp(exponent(gate))) * up.
template <typename Exponent>
BATON_INLINE void GatedUnit(const float* gate, const float* up, int n, float* y, Exponent exponent) {
  const auto vectors = [&]<int kCount>(int i) {
    Simd::F e[kCount];
    BATON_UNROLL for (int v = 0; v < kCount; ++v) e[v] = exponent(Simd::Load(gate + i + v * kLanes));
    ExpEach<kCount>(e);
    BATON_UNROLL for (int v = 0; v < kCount; ++v) {
      const int at = i + v * kLanes;
      const Simd::F open = Simd::Div(Simd::Load(gate + at), Simd::Add(Simd::Set1(1.0f), e[v]));
      Simd::Store(y + at, Simd::Mul(open, Simd::Load(up + at)));
    }
  };
  constexpr int kVectors = 4;
  int i = 0;
  for (; i + kVectors * kLanes <= n; i += kVectors * kLanes) vectors.template operator()<kVectors>(i);
  for (; i < n; i += kLanes) vectors.template operator()<1>(i);
}

void SwiGlu(const float* gate, const float* up, int n, float* y) {
  GatedUnit(gate, up, n, y, [](const Simd::F& g) { return Simd::Sub(Simd::Zero(), g); });
}

void GeGlu(const float* gate, const float* up, int n, float* y) {
  GatedUnit(gate, up, n, y, [](const Simd::F& g) {
    const Simd::F t = Simd::Fma(Simd::Mul(Simd::Set1(0.044715f), g), Simd::Mul(g, g), g);
    // -2 sqrt(2 / pi).
    return Simd::Mul(Simd::Set1(-1.5957691216057308f), t);
  });
}

void Add(float* x, size_t stride, const float* y, int rows) {
  for (int r = 0; r < rows; ++r, x += stride, y += kLanes) Simd::Store(x, Simd::Add(Simd::Load(x), Simd::Load(y)));
}

void Rope(const float* cosine, const float* sine, size_t stride, float* x, int rows) {
  for (int r = 0; r < rows; ++r, x += kLanes, cosine += stride, sine += stride) {
    const Simd::F v = Simd::Load(x);
    const Simd::F crossed = Simd::Mul(Simd::SwapPairs(v), Simd::Load(sine));
    Simd::Store(x, Simd::Fma(v, Simd::Load(cosine), crossed));
  }
}

void ToBf16(const float* x, int n, uint16_t* y) {
  for (int i = 0; i < n; i += kLanes) Simd::StoreBf16(y + i, Simd::RoundBf16(Simd::Load(x + i)));
}

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_ELEMENTWISE_CPU_H_
