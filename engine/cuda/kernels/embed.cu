#include "engine/cuda/kernels/weights.cuh"

namespace baton::engine::cuda {
namespace {

template <WeightFormat kFormat>
__device__ void EmbedRow(const EmbedParams& p) {
  using Traits = WeightTraits<kFormat>;
  const int row = static_cast<int>(blockIdx.x);
  const int k = p.embedding.k;
  const int32_t given = p.tokens[row];
  const int32_t token = given < 0 ? p.chosen[~given] : given;
  const size_t first = static_cast<size_t>(token) * k;
  float* const out = p.residual + static_cast<size_t>(row) * k;
  for (int i = static_cast<int>(threadIdx.x) * 8; i < k; i += kThreads * 8) {
    const size_t element = first + i;
    float2 scale = make_float2(0.0f, 0.0f);
    if constexpr (kFormat == WeightFormat::kFp8) {
      const size_t group = static_cast<size_t>(token) * ScalesOfFp8Row(k) + i / kFp8Group;
      scale = RawFp8Scale{Load4(p.embedding.scales + group)}.Value();
    } else if constexpr (kFormat != WeightFormat::kBf16) {
      const Matrix& m = p.embedding;
      const bool refined = m.factors != nullptr;
      const RawScale raw = {Load4(m.scales + (refined ? element / kSuperGroup : element / kGroup)),
                            refined ? __ldg(m.factors + element / Traits::kPerFactors) : m.factor};
      scale = raw.Value();
    }
    const auto* const values = static_cast<const uint8_t*>(p.embedding.values);
    const Fragment fragment = Traits::Convert(Traits::LoadFromGlobal(values + element * Traits::kBits / 8), scale);
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      const uint32_t a = fragment.pair[j];
      const uint32_t b = fragment.pair[j + 1];
      *reinterpret_cast<float4*>(out + i + 2 * j) = make_float4(
          __fmul_rn(__uint_as_float(a << 16), p.scale), __fmul_rn(__uint_as_float(a & 0xffff0000u), p.scale),
          __fmul_rn(__uint_as_float(b << 16), p.scale), __fmul_rn(__uint_as_float(b & 0xffff0000u), p.scale));
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) embed(const __grid_constant__ EmbedParams p) {
  AwaitKernelsBefore();
  switch (p.embedding.format) {
    case WeightFormat::kBf16:
      return EmbedRow<WeightFormat::kBf16>(p);
    case WeightFormat::kInt8:
      return EmbedRow<WeightFormat::kInt8>(p);
    case WeightFormat::kInt4:
      return EmbedRow<WeightFormat::kInt4>(p);
    case WeightFormat::kFp8:
      return EmbedRow<WeightFormat::kFp8>(p);
  }
}

}  // namespace baton::engine::cuda
