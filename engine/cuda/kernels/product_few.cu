// Products of few rows, bound by the bandwidth of memory: a CTA computes 16 columns of 8 rows. Its warps share out the
// splits of K; each loads its weights from global memory straight into the registers of the operand, half a split
// ahead of the mma.
#include "engine/cuda/kernels/weights.cuh"

namespace baton::engine::cuda {
namespace {

constexpr int kFewColumns = 16;
constexpr int kFewTile = kFewColumns * kFewRows;
// Blocks of 32 elements that a warp loads at a time.
constexpr int kFewBlocks = kDepthSplit / kDepthBlock / 2;
static_assert(kDepthBlock == kGroup && kSuperGroup % (kFewBlocks * kDepthBlock) == 0);

template <WeightFormat kFormat>
class FewRows {
 public:
  using Traits = WeightTraits<kFormat>;

  __device__ __forceinline__ explicit FewRows(const ProductParams& p)
      : p_(p), lane_(static_cast<int>(threadIdx.x) % kWarp), blocks_(p.weights.k / kDepthBlock) {
    const size_t k = static_cast<size_t>(p.weights.k);
    const size_t column = blockIdx.x * kFewColumns + static_cast<size_t>(lane_ / 4);
    const int row = static_cast<int>(blockIdx.y) * kFewRows + lane_ / 4;
    element_ = column * k + static_cast<size_t>(lane_ % 4 * 8);
    acts_ = row < p.rows ? p.acts + static_cast<size_t>(row) * k + lane_ % 4 * 8 : nullptr;
  }

  struct Half {
    typename Traits::Raw raw[kFewBlocks][2];
    typename Traits::Scale scale[kFewBlocks][2];
    uint4 acts[kFewBlocks];
  };

  // Blocks [first, first + kFewBlocks), as far as K has them.
  __device__ __forceinline__ void Load(Half& half, int first) const {
    const size_t element = element_ + static_cast<size_t>(first) * kDepthBlock;
    if constexpr (kFormat == WeightFormat::kFp8) {
      LoadFp8Scales(half, first);
    } else if constexpr (kFormat != WeightFormat::kBf16) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        LoadScales(half, row, element + static_cast<size_t>(row) * 8 * static_cast<size_t>(p_.weights.k), first);
      }
    }
    const uint8_t* const top = static_cast<const uint8_t*>(p_.weights.values) + element * Traits::kBits / 8;
    const uint8_t* const bottom = top + p_.weights.k * Traits::kBits;
#pragma unroll
    for (int i = 0; i < kFewBlocks; ++i) {
      if (first + i >= blocks_) continue;
      half.raw[i][0] = Traits::LoadFromGlobal(top + i * kDepthBlock * Traits::kBits / 8);
      half.raw[i][1] = Traits::LoadFromGlobal(bottom + i * kDepthBlock * Traits::kBits / 8);
      half.acts[i] = make_uint4(0, 0, 0, 0);
      if (acts_ != nullptr) {
        half.acts[i] = __ldg(reinterpret_cast<const uint4*>(acts_ + static_cast<size_t>(first) * kDepthBlock) + i * 4);
      }
    }
  }

  __device__ __forceinline__ void Multiply(const Half& half, int first, float (&sum)[4]) const {
#pragma unroll
    for (int i = 0; i < kFewBlocks; ++i) {
      if (first + i >= blocks_) continue;
      MmaBlock(sum, Convert(half, i, 0), Convert(half, i, 1), half.acts[i]);
    }
  }

  // tile: [kFewRows][kFewColumns].
  __device__ __forceinline__ void Store(float* tile, const float (&sum)[4]) const {
    tile += lane_ % 4 * 2 * kFewColumns + lane_ / 4;
    tile[0] = sum[0];
    tile[kFewColumns] = sum[1];
    tile[8] = sum[2];
    tile[kFewColumns + 8] = sum[3];
  }

  __device__ __forceinline__ int blocks() const { return blocks_; }

 private:
  // Of one of the two rows of weights. The blocks lie in one group of kSuperGroup.
  __device__ __forceinline__ void LoadScales(Half& half, int row, size_t element, int first) const {
    const Matrix& m = p_.weights;
    if (m.factors == nullptr) {
      const uint32_t* const pairs = m.scales + element / kGroup;
#pragma unroll
      for (int i = 0; i < kFewBlocks; ++i) {
        if (first + i < blocks_) half.scale[i][row] = {Load4(pairs + i), m.factor};
      }
      return;
    }
    if (first >= blocks_) return;
    const uint32_t pair = Load4(m.scales + element / kSuperGroup);
    const uint16_t* const factors = m.factors + element / Traits::kPerFactors;
#pragma unroll
    for (int i = 0; i < kFewBlocks; ++i) {
      half.scale[i][row] = {pair, __ldg(factors + i * kDepthBlock / Traits::kPerFactors)};
    }
  }

  // Loads the scales of both rows. The blocks lie in one group.
  __device__ __forceinline__ void LoadFp8Scales(Half& half, int first) const {
    static_assert(kFewBlocks * kDepthBlock == kFp8Group);
    if (first >= blocks_) return;
    const int scales = ScalesOfFp8Row(p_.weights.k);
    const uint32_t* const from = p_.weights.scales + first / kFewBlocks;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const size_t column = blockIdx.x * kFewColumns + static_cast<size_t>(lane_ / 4 + row * 8);
      const RawFp8Scale scale = {Load4(from + column * scales)};
#pragma unroll
      for (int i = 0; i < kFewBlocks; ++i) half.scale[i][row] = scale;
    }
  }

  static __device__ __forceinline__ Fragment Convert(const Half& half, int i, int row) {
    float2 scale = make_float2(0.0f, 0.0f);
    if constexpr (kFormat != WeightFormat::kBf16) scale = half.scale[i][row].Value();
    return Traits::Convert(half.raw[i][row], scale);
  }

  const ProductParams& p_;
  const int lane_;
  const int blocks_;
  // This lane's first element of row lane / 4 of the weights; row lane / 4 + 8 lies 8 * k elements further.
  size_t element_;
  // The same of row lane / 4 of the activations; null where there is no such row.
  const Bf16* acts_;
};

template <WeightFormat kFormat>
__device__ __forceinline__ void ProductFew(const ProductParams& p, float* partial) {
  using Few = FewRows<kFormat>;
  const Few few(p);
  // Of all warps together, in blocks.
  const int stride = static_cast<int>(blockDim.x) / kWarp * 2 * kFewBlocks;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  typename Few::Half first, second;
  few.Load(first, warp * 2 * kFewBlocks);
#pragma unroll 1
  for (int block = warp * 2 * kFewBlocks; block < few.blocks(); block += stride) {
    float sum[4] = {};
    few.Load(second, block + kFewBlocks);
    few.Multiply(first, block, sum);
    few.Load(first, block + stride);
    few.Multiply(second, block + kFewBlocks, sum);
    few.Store(partial + block / (2 * kFewBlocks) * kFewTile, sum);
  }
  const int splits = (p.weights.k + kDepthSplit - 1) / kDepthSplit;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kFewTile; i += static_cast<int>(blockDim.x)) {
    const int row = static_cast<int>(blockIdx.y) * kFewRows + i / kFewColumns;
    if (row >= p.rows) break;
    float total = 0.0f;
    for (int split = 0; split < splits; ++split) total = __fadd_rn(total, partial[split * kFewTile + i]);
    p.out[static_cast<size_t>(row) * p.out_stride + blockIdx.x * kFewColumns + i % kFewColumns] = total;
  }
}

}  // namespace

extern __shared__ __align__(128) float few_partial[];

extern "C" __global__ void __launch_bounds__(kMostFewThreads, 2)
    product_few_bf16(const __grid_constant__ ProductParams p) {
  AwaitKernelsBefore();
  ProductFew<WeightFormat::kBf16>(p, few_partial);
}

extern "C" __global__ void __launch_bounds__(kMostFewThreads, 2)
    product_few_int8(const __grid_constant__ ProductParams p) {
  AwaitKernelsBefore();
  ProductFew<WeightFormat::kInt8>(p, few_partial);
}

extern "C" __global__ void __launch_bounds__(kMostFewThreads, 2)
    product_few_int4(const __grid_constant__ ProductParams p) {
  AwaitKernelsBefore();
  ProductFew<WeightFormat::kInt4>(p, few_partial);
}

extern "C" __global__ void __launch_bounds__(kMostFewThreads, 2)
    product_few_fp8(const __grid_constant__ ProductParams p) {
  AwaitKernelsBefore();
  ProductFew<WeightFormat::kFp8>(p, few_partial);
}

}  // namespace baton::engine::cuda
