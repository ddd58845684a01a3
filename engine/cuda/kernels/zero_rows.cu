#include "engine/cuda/kernels/device.cuh"

namespace baton::engine::cuda {

extern "C" __global__ void __launch_bounds__(kThreads) zero_rows(const __grid_constant__ ZeroRowsParams p) {
  AwaitKernelsBefore();
  const size_t part = static_cast<size_t>(blockIdx.x) * (2 * p.kv_heads) + blockIdx.y;
  const int row_bytes = p.head_dim * 2;
  uint8_t* const head = p.block + part * kPageTokens * row_bytes;
  for (int i = p.first_row * row_bytes + static_cast<int>(threadIdx.x) * 16; i < kPageTokens * row_bytes;
       i += kThreads * 16) {
    *reinterpret_cast<uint4*>(head + i) = make_uint4(0, 0, 0, 0);
  }
}

}  // namespace baton::engine::cuda
