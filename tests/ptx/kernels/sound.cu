// Kernels of many kinds whose results tests compute by themselves.
#include <cuda_bf16.h>

#include <cstdint>

__device__ __noinline__ int Collatz(int value, int most) {
  int steps = 0;
  while (value != 1 && steps < most) {
    value = value % 2 == 0 ? value / 2 : 3 * value + 1;
    ++steps;
  }
  return steps;
}

// Divergence, loops of different length, calls.
extern "C" __global__ void collatz(int* out, int most) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = i % 3 == 0 ? -1 : Collatz(i + 1, most);
}

extern "C" __global__ void switches(int* out) {
  const int i = threadIdx.x;
  int value = 0;
  switch (i % 9) {
    case 0:
      value = 5;
      break;
    case 1:
      value = i * 7;
      break;
    case 2:
      value = i ^ 77;
      break;
    case 3:
      value = i / 3;
      break;
    case 4:
      value = -i;
      break;
    case 5:
      value = i * i;
      break;
    case 6:
      value = i << 3;
      break;
    default:
      value = 9;
  }
  out[i] = value;
}

// Sum over a block by shuffles and shared memory; the order is fixed.
extern "C" __global__ void block_sum(const float* in, float* out, int count) {
  __shared__ float sums[32];
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += in[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (threadIdx.x == 0) *out = sum;
  }
}

extern "C" __global__ void sines(const float* in, float* out) {
  const int i = threadIdx.x;
  out[i] = sinf(in[i]) + expf(in[i] * 1e-6f);
}

// D[16][8] = A[16][16] * B[16][8] by ldmatrix and mma.
extern "C" __global__ void tile_product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d) {
  __shared__ alignas(16) __nv_bfloat16 as[16][16];
  __shared__ alignas(16) __nv_bfloat16 bs[16][8];
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) as[i / 16][i % 16] = a[i];
  for (int i = lane; i < 128; i += 32) bs[i / 8][i % 8] = b[i];
  __syncthreads();
  uint32_t fa[4], fb[2];
  float acc[4] = {};
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(&as[lane % 16][lane / 16 * 8]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
               : "r"(at));
  const auto bt = static_cast<uint32_t>(__cvta_generic_to_shared(&bs[lane % 16][0]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(bt));
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  const int row = lane / 4, column = lane % 4 * 2;
  d[row * 8 + column] = acc[0];
  d[row * 8 + column + 1] = acc[1];
  d[(row + 8) * 8 + column] = acc[2];
  d[(row + 8) * 8 + column + 1] = acc[3];
}

// Plain multiplications, to measure how fast the interpreter is.
extern "C" __global__ void spin(float* out, int count) {
  float x = threadIdx.x, y = 1;
  for (int i = 0; i < count; ++i) {
    x = fmaf(x, 0.5f, y);
    y = y * 0.75f + i;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}

// Histograms by atomics in shared and in global memory, and what blocks count together.
extern "C" __global__ void histogram(const int* in, int* out, int count) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    atomicAdd(&bins[in[i] & 7], 1);
    atomicMax(&out[8], in[i]);
    atomicMin(&out[9], in[i]);
    atomicXor(&out[10], in[i]);
  }
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
  const int votes = __syncthreads_count(threadIdx.x % 3 == 0);
  const int all = __syncthreads_and(threadIdx.x < 1000);
  const int any = __syncthreads_or(threadIdx.x == 5);
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    out[11] = votes;
    out[12] = all + 2 * any;
    float* sum = reinterpret_cast<float*>(&out[13]);
    for (int i = 0; i < 4; ++i) atomicAdd(sum, 0.5f);
    out[14] = atomicCAS(&out[11], votes, 7);
  }
}

// Warp 0 fills one half while warp 1 reads the other, with named barriers that only some arrive at.
extern "C" __global__ void producer(const int* in, int* out) {
  __shared__ int halves[2][32];
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 6; ++i) {
    if (threadIdx.x < 32) {
      // Empty: 3 and 4. Full: 1 and 2.
      if (i >= 2) asm volatile("barrier.sync.aligned %0, 64;" ::"r"(3 + i % 2) : "memory");
      halves[i % 2][lane] = in[32 * i + lane];
      asm volatile("bar.arrive %0, 64;" ::"r"(1 + i % 2) : "memory");
    } else {
      asm volatile("bar.sync %0, 64;" ::"r"(1 + i % 2) : "memory");
      out[32 * i + lane] = halves[i % 2][31 - lane];
      if (i < 4) asm volatile("bar.arrive %0, 64;" ::"r"(3 + i % 2) : "memory");
    }
  }
}

// Long polynomials, integer tricks and calls of the mathematical library.
extern "C" __global__ void doubles(const double* in, double* out) {
  const int i = threadIdx.x;
  const double x = in[i];
  out[6 * i] = sin(x);
  out[6 * i + 1] = pow(x, 1.7);
  out[6 * i + 2] = log(x);
  out[6 * i + 3] = exp(-x);
  out[6 * i + 4] = x / 3 + rsqrt(x) + cbrt(x);
  out[6 * i + 5] = static_cast<double>(static_cast<unsigned long long>(x * 1e9) / (i + 3) % 1000003);
}
