#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {
namespace {

// -2 sqrt(2 / pi).
constexpr float kGeluSlope = -1.5957691216057308f;
// The greatest exponent, as on the CPU: no infinity arises that the gate does not have.
constexpr float kMostExponent = 88.0f;

__device__ __forceinline__ float Activate(float gate, float up, bool gelu) {
  float exponent = -gate;
  if (gelu) {
    const float t = __fmaf_rn(__fmul_rn(0.044715f, gate), __fmul_rn(gate, gate), gate);
    exponent = __fmul_rn(kGeluSlope, t);
  }
  const float e = Exp2(__fmul_rn(fminf(exponent, kMostExponent), kLog2E));
  return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, e)), up);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) activate(const __grid_constant__ ActivateParams p) {
  AwaitKernelsBefore();
  const int i = (static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x)) * 2;
  if (i >= p.ffn) return;
  const size_t row = blockIdx.x;
  const float* const gates = p.gate_up + row * 2 * p.ffn + i;
  const float2 gate = *reinterpret_cast<const float2*>(gates);
  const float2 up = *reinterpret_cast<const float2*>(gates + p.ffn);
  *reinterpret_cast<uint32_t*>(p.out + row * p.ffn + i) =
      PackBf16(Activate(gate.x, up.x, p.gelu != 0), Activate(gate.y, up.y, p.gelu != 0));
}

}  // namespace baton::engine::cuda
