// Kernels with planted bugs, and beside each the same kernel without it, which a bug of 0 chooses.
#include <cstdint>

extern "C" __global__ void reverse(const float* in, float* out, int bug) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  if (bug != 1) __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
  if (bug == 2) {
    // The tile is filled again while others still read it.
    tile[threadIdx.x] = in[threadIdx.x] * 2;
    __syncthreads();
    out[threadIdx.x] += tile[127 - threadIdx.x];
  }
}

extern "C" __global__ void bounds(const float* in, float* out, int count, int bug) {
  __shared__ float tile[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (bug == 1 ? i <= count : i < count) out[i] = in[i];
  if (bug == 2 && threadIdx.x == 0) out[i] = in[-1];
  if (bug == 3) {
    tile[threadIdx.x + 1] = 1;
    __syncthreads();
    out[i] = tile[threadIdx.x];
  }
  if (bug == 4) out[i] = *reinterpret_cast<const float*>(reinterpret_cast<const char*>(in) + 2);
}

extern "C" __global__ void unwritten(float* out, int bug) {
  __shared__ float tile[64];
  if (bug != 1 || threadIdx.x != 7) tile[threadIdx.x] = 3;
  __syncthreads();
  float local[8];
  for (int i = 0; i < (bug == 2 ? 7 : 8); ++i) local[i] = i + tile[i];
  out[threadIdx.x] = tile[threadIdx.x ^ 1] + local[(threadIdx.x + blockDim.x) & 7];
}

extern "C" __global__ void barriers(float* out, int bug) {
  __shared__ float tile[64];
  tile[threadIdx.x] = threadIdx.x;
  if (bug == 1) {
    if (threadIdx.x % 32 < 16) __syncthreads();
    out[threadIdx.x] = 1;
    __syncthreads();
  } else if (bug == 2) {
    out[threadIdx.x] = 1;
    if (threadIdx.x < 32) __syncthreads();
  } else {
    if (threadIdx.x % 32 < 16) tile[threadIdx.x] += 1;
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
  }
}

extern "C" __global__ void shuffles(int* out, int bug) {
  int value = threadIdx.x;
  if (bug == 1) {
    if (threadIdx.x < 16) value = __shfl_xor_sync(0xffffffff, value, 1);
  } else if (bug == 2) {
    value = __shfl_sync(threadIdx.x < 16 ? 0xffff : 0xffff0000, value, 20);
  } else if (bug == 3) {
    value = __shfl_xor_sync(0xfffffffe, value, 2);
  } else if (threadIdx.x < 16) {
    value = __shfl_xor_sync(0xffff, value, 1);
  } else {
    value = __shfl_xor_sync(0xffff0000, value, 2);
  }
  out[threadIdx.x] = value;
}

// A warp passes values through shared memory.
extern "C" __global__ void within_warp(int* out, int bug) {
  __shared__ int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  if (bug != 1) __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x ^ 5];
}

extern "C" __global__ void copies(const float* in, float* out, int bug) {
  __shared__ alignas(16) float tile[2][128];
  const auto target = [&](int stage) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(&tile[stage][4 * threadIdx.x]));
  };
  for (int stage = 0; stage < 2; ++stage) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target(stage)),
                 "l"(in + 128 * stage + 4 * threadIdx.x)
                 : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  if (bug == 1) {
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  }
  if (bug != 2) __syncthreads();
  float sum = tile[0][127 - threadIdx.x];
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = sum + tile[1][threadIdx.x];
}

extern "C" __global__ void across_blocks(int* counter, int bug) {
  if (threadIdx.x != 0) return;
  if (bug == 1) {
    *counter += 1;
  } else {
    atomicAdd(counter, 1);
  }
}
