// Products of many rows: a CTA computes a tile of kManyColumns columns (of weights) by kManyRows rows. Stages of
// kStageDepth elements of K flow through shared memory by cp.async; each warp multiplies 32 columns with all rows.
//
// Shared memory holds weights as they lie in global memory, and a lane's 8 elements of a block of 32 are one load. The
// chunks of 16 bytes of a row are permuted so that the lanes of a load hit different banks.
#include "engine/cuda/kernels/weights.cuh"

namespace baton::engine::cuda {
namespace {

constexpr int kManyWarps = kThreads / kWarp;
constexpr int kWarpColumns = kManyColumns / kManyWarps;
constexpr int kColumnTiles = kWarpColumns / 16;
constexpr int kRowTiles = kManyRows / 8;
constexpr int kStageBlocks = kStageDepth / kDepthBlock;
static_assert(kDepthSplit % kStageDepth == 0);

// Where chunk `chunk` of row `row` lies, in a table of rows of kChunks chunks.
template <int kChunks>
__device__ __forceinline__ int SwizzledChunk(int row, int chunk) {
  constexpr int kRowsToABank = 8 / kChunks;
  return row * kChunks + (chunk ^ (row / kRowsToABank % 2 * (kChunks / 2)));
}

template <WeightFormat kFormat>
class ManyRows {
 public:
  using Traits = WeightTraits<kFormat>;
  using Raw = typename Traits::Raw;
  static constexpr int kWeightChunks = kStageDepth * Traits::kBits / 8 / 16;
  static constexpr int kActChunks = kStageDepth * 2 / 16;
  static constexpr bool kHasScales = kFormat != WeightFormat::kBf16;
  static constexpr bool kHasFactors = Traits::kPerFactors != 0;
  // Of a row of weights in a stage. Where there are no factors, a pair is one f32.
  static constexpr int kPairs = kHasFactors ? kStageDepth / kGroup : kHasScales ? 1 : 0;
  static constexpr int kFactors = kHasFactors ? kStageDepth / Traits::kPerFactors : 0;
  static constexpr int kWeightBytes = kManyColumns * kWeightChunks * 16;
  static constexpr int kActBytes = kManyRows * kActChunks * 16;
  static constexpr int kPairPlace = kWeightBytes + kActBytes;
  static constexpr int kFactorPlace = kPairPlace + kManyColumns * kPairs * 4;
  static constexpr int kStageBytes = kFactorPlace + kManyColumns * kFactors * 2;
  static_assert(kStageBytes == StageBytes(kFormat));

  __device__ __forceinline__ ManyRows(const ProductParams& p, uint8_t* shared, int column, int row)
      : p_(p),
        shared_(shared),
        column_(column),
        row_(row),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        warp_column_(static_cast<int>(threadIdx.x) / kWarp * kWarpColumns),
        column_tiles_(p.weights.n > column + warp_column_ ? (p.weights.n - column - warp_column_) / 16 : 0),
        row_tiles_((p.rows - row + 7) / 8) {}

  __device__ __forceinline__ void CopyStage(int stage) const {
    uint8_t* const to = shared_ + stage % kStages * kStageBytes;
    const int k = stage * kStageDepth;
    CopyRows<kWeightChunks, Traits::kBits>(SharedAddress(to), p_.weights.values, column_, kManyColumns, p_.weights.n,
                                           k);
    CopyRows<kActChunks, 16>(SharedAddress(to + kWeightBytes), p_.acts, row_, kManyRows, p_.rows, k);
    if constexpr (kHasFactors) CopyScales(SharedAddress(to), k);
    if constexpr (kFormat == WeightFormat::kFp8) CopyFp8Scales(SharedAddress(to), k);
  }

  // Where the matrix has no factors, those of every stage are the same, and no copy writes them.
  __device__ __forceinline__ void FillFactors() const {
    if (p_.weights.factors != nullptr) return;
    for (int stage = 0; stage < kStages; ++stage) {
      auto* const to = reinterpret_cast<uint32_t*>(shared_ + stage * kStageBytes + kFactorPlace);
      for (int i = static_cast<int>(threadIdx.x); i < kManyColumns * kFactors / 2; i += kThreads) {
        to[i] = p_.weights.factor * 0x10001u;
      }
    }
  }

  // Adds a stage to the chains.
  __device__ __forceinline__ void Multiply(int stage, float (&sum)[kColumnTiles][kRowTiles][4]) const {
    const uint8_t* const from = shared_ + stage % kStages * kStageBytes;
#pragma unroll
    for (int block = 0; block < kStageBlocks; ++block) {
      if (stage * kStageDepth + block * kDepthBlock >= p_.weights.k) break;
      Fragment top[kColumnTiles], bottom[kColumnTiles];
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) {
        top[c] = LoadWeights(from, warp_column_ + c * 16 + lane_ / 4, block);
        bottom[c] = LoadWeights(from, warp_column_ + c * 16 + lane_ / 4 + 8, block);
      }
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        if (r >= row_tiles_) break;
        const int chunk = SwizzledChunk<kActChunks>(r * 8 + lane_ / 4, block * 4 + lane_ % 4);
        const uint4 acts = *reinterpret_cast<const uint4*>(from + kWeightBytes + chunk * 16);
#pragma unroll
        for (int c = 0; c < kColumnTiles; ++c) MmaBlock(sum[c][r], top[c], bottom[c], acts);
      }
    }
  }

  __device__ __forceinline__ void Store(const float (&total)[kColumnTiles][kRowTiles][4]) const {
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) {
      if (c >= column_tiles_) break;
      const int column = column_ + warp_column_ + c * 16 + lane_ / 4;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = row_ + r * 8 + lane_ % 4 * 2 + i;
          if (row >= p_.rows) continue;
          float* const out = p_.out + static_cast<size_t>(row) * p_.out_stride + column;
          out[0] = total[c][r][i];
          out[8] = total[c][r][i + 2];
        }
      }
    }
  }

 private:
  // Rows [first, first + rows) of a matrix with `most` rows of kBits an element, elements [k, k + kStageDepth). What
  // the matrix lacks becomes zero.
  template <int kChunks, int kBits>
  __device__ __forceinline__ void CopyRows(uint32_t to, const void* matrix, int first, int rows, int most,
                                           int k) const {
    constexpr int kPerChunk = 128 / kBits;
    const auto* const base = static_cast<const uint8_t*>(matrix);
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < rows * kChunks; i += kThreads) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      const bool present = first + row < most && k + chunk * kPerChunk < p_.weights.k;
      const size_t element = static_cast<size_t>(first + row) * p_.weights.k + k + chunk * kPerChunk;
      CopyAsync16(to + SwizzledChunk<kChunks>(row, chunk) * 16, present ? base + element * kBits / 8 : base, present);
    }
  }

  __device__ __forceinline__ void CopyScales(uint32_t stage, int k) const {
    const Matrix& m = p_.weights;
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kManyColumns * kPairs; i += kThreads) {
      const int row = i / kPairs;
      const int column = k + i % kPairs * kGroup;
      const bool present = column_ + row < m.n && column < m.k;
      const size_t element = static_cast<size_t>(column_ + row) * m.k + column;
      const size_t pair = m.factors == nullptr ? element / kGroup : element / kSuperGroup;
      CopyAsyncFew<4>(stage + kPairPlace + i * 4, m.scales + (present ? pair : 0), present);
    }
    if (m.factors == nullptr) return;
#pragma unroll
    for (int row = static_cast<int>(threadIdx.x); row < kManyColumns; row += kThreads) {
      const bool present = column_ + row < m.n;
      const size_t element = static_cast<size_t>(column_ + row) * m.k + k;
      const uint16_t* const from = m.factors + (present ? element / Traits::kPerFactors : 0);
      CopyAsyncFew<kFactors * 2>(stage + kFactorPlace + row * kFactors * 2, from, present);
    }
  }

  __device__ __forceinline__ void CopyFp8Scales(uint32_t stage, int k) const {
    static_assert(kFp8Group % kStageDepth == 0);
    const Matrix& m = p_.weights;
#pragma unroll
    for (int row = static_cast<int>(threadIdx.x); row < kManyColumns; row += kThreads) {
      const bool present = column_ + row < m.n;
      const size_t scale = static_cast<size_t>(column_ + row) * ScalesOfFp8Row(m.k) + k / kFp8Group;
      CopyAsyncFew<4>(stage + kPairPlace + row * 4, m.scales + (present ? scale : 0), present);
    }
  }

  __device__ __forceinline__ Fragment LoadWeights(const uint8_t* from, int row, int block) const {
    const int element = block * kDepthBlock + lane_ % 4 * 8;
    const int byte = element * Traits::kBits / 8;
    const int chunk = SwizzledChunk<kWeightChunks>(row, byte / 16);
    const Raw raw = *reinterpret_cast<const Raw*>(from + chunk * 16 + byte % 16);
    float2 scale = make_float2(0.0f, 0.0f);
    if constexpr (kFormat == WeightFormat::kFp8) {
      scale = RawFp8Scale{reinterpret_cast<const uint32_t*>(from + kPairPlace)[row]}.Value();
    } else if constexpr (kHasFactors) {
      const auto* const pairs = reinterpret_cast<const uint32_t*>(from + kPairPlace);
      const auto* const factors = reinterpret_cast<const uint16_t*>(from + kFactorPlace);
      const RawScale scaled = {pairs[row * kPairs + element / kGroup],
                               factors[row * kFactors + element / Traits::kPerFactors]};
      scale = scaled.Value();
    }
    return Traits::Convert(raw, scale);
  }

  const ProductParams& p_;
  uint8_t* const shared_;
  const int column_;
  const int row_;
  const int lane_;
  const int warp_column_;
  // Tiles of this warp that the matrices have.
  const int column_tiles_;
  const int row_tiles_;
};

// Tiles that run at the same time share weights or rows: CTAs go through kRasterRows tiles of rows before the next tile
// of columns.
__device__ __forceinline__ int2 TileOf(int index, int column_tiles, int row_tiles) {
  const int band = index / (kRasterRows * column_tiles);
  const int first = band * kRasterRows;
  const int height = min(row_tiles - first, kRasterRows);
  const int rest = index - first * column_tiles;
  return make_int2(rest / height, first + rest % height);
}

template <WeightFormat kFormat>
__device__ __forceinline__ void ProductMany(const ProductParams& p, uint8_t* shared) {
  const int2 tile = TileOf(static_cast<int>(blockIdx.x), (p.weights.n + kManyColumns - 1) / kManyColumns,
                           (p.rows + kManyRows - 1) / kManyRows);
  const ManyRows<kFormat> many(p, shared, tile.x * kManyColumns, tile.y * kManyRows);
  const int stages = (p.weights.k + kStageDepth - 1) / kStageDepth;
  float total[kColumnTiles][kRowTiles][4] = {};
  float sum[kColumnTiles][kRowTiles][4] = {};
  if constexpr (ManyRows<kFormat>::kHasFactors) many.FillFactors();
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < stages) many.CopyStage(stage);
    CommitCopies();
  }
  for (int stage = 0; stage < stages; ++stage) {
    WaitForCopies<kStages - 2>();
    // Also: every warp has read the stage that the next copy overwrites.
    __syncthreads();
    if (stage + kStages - 1 < stages) many.CopyStage(stage + kStages - 1);
    CommitCopies();
    many.Multiply(stage, sum);
    if ((stage + 1) % (kDepthSplit / kStageDepth) != 0 && stage + 1 < stages) continue;
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          total[c][r][i] = __fadd_rn(total[c][r][i], sum[c][r][i]);
          sum[c][r][i] = 0.0f;
        }
      }
    }
  }
  many.Store(total);
}

}  // namespace

extern __shared__ __align__(128) uint8_t many_stages[];

extern "C" __global__ void __launch_bounds__(kThreads, 2) product_bf16(const __grid_constant__ ProductParams p) {
  AwaitKernelsBefore();
  ProductMany<WeightFormat::kBf16>(p, many_stages);
}

extern "C" __global__ void __launch_bounds__(kThreads, 2) product_int8(const __grid_constant__ ProductParams p) {
  AwaitKernelsBefore();
  ProductMany<WeightFormat::kInt8>(p, many_stages);
}

extern "C" __global__ void __launch_bounds__(kThreads, 2) product_int4(const __grid_constant__ ProductParams p) {
  AwaitKernelsBefore();
  ProductMany<WeightFormat::kInt4>(p, many_stages);
}

extern "C" __global__ void __launch_bounds__(kThreads, 2) product_fp8(const __grid_constant__ ProductParams p) {
  AwaitKernelsBefore();
  ProductMany<WeightFormat::kFp8>(p, many_stages);
}

}  // namespace baton::engine::cuda
