// How each kernel of params.h is launched: pure functions of shapes. Needs no header of CUDA.
//
// A kernel whose launch has more than kDefaultSharedBytes of dynamic shared memory needs
// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raised once, to its greatest launch.
#ifndef BATON_ENGINE_CUDA_KERNELS_LAUNCH_H_
#define BATON_ENGINE_CUDA_KERNELS_LAUNCH_H_

#include <algorithm>
#include <cstdint>

#include "engine/cuda/kernels/params.h"
#include "engine/cuda/kernels/shapes.h"

namespace baton::engine::cuda {

inline constexpr uint32_t kDefaultSharedBytes = 48 * 1024;
// What a block can have at most on sm_80; sm_90 has more.
inline constexpr uint32_t kMostSharedBytes = 163 * 1024;

struct Launch {
  uint32_t grid_x = 1;
  uint32_t grid_y = 1;
  uint32_t grid_z = 1;
  uint32_t threads = kThreads;
  // Dynamic.
  uint32_t shared_bytes = 0;
};

constexpr uint32_t CeilDiv(int32_t a, int32_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

constexpr const char* ProductKernel(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return "product_bf16";
    case WeightFormat::kInt8:
      return "product_int8";
    case WeightFormat::kInt4:
      return "product_int4";
    case WeightFormat::kFp8:
      return "product_fp8";
  }
  return "";
}

constexpr const char* ProductFewKernel(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return "product_few_bf16";
    case WeightFormat::kInt8:
      return "product_few_int8";
    case WeightFormat::kInt4:
      return "product_few_int4";
    case WeightFormat::kFp8:
      return "product_few_fp8";
  }
  return "";
}

constexpr Launch EmbedLaunch(int32_t rows) { return {.grid_x = static_cast<uint32_t>(rows)}; }

// Rows of the output.
constexpr Launch AddNormLaunch(int32_t rows) { return {.grid_x = static_cast<uint32_t>(rows)}; }

constexpr Launch ProductLaunch(const Matrix& weights, int32_t rows) {
  return {.grid_x = CeilDiv(weights.n, kManyColumns) * CeilDiv(rows, kManyRows),
          .shared_bytes = static_cast<uint32_t>(kStages * StageBytes(weights.format))};
}

// K is at most kMostFewDepth.
constexpr Launch ProductFewLaunch(const Matrix& weights, int32_t rows) {
  const uint32_t splits = CeilDiv(weights.k, kDepthSplit);
  return {.grid_x = CeilDiv(weights.n, 16),
          .grid_y = CeilDiv(rows, kFewRows),
          .threads = std::min<uint32_t>(splits * 32, kMostFewThreads),
          .shared_bytes = splits * kFewRows * 16 * 4};
}

inline constexpr int32_t kMostFewDepth = static_cast<int32_t>(kMostSharedBytes) / (kFewRows * 16 * 4) * kDepthSplit;

constexpr Launch StoreQkvLaunch(int32_t rows, int32_t heads, int32_t kv_heads) {
  return {.grid_x = static_cast<uint32_t>(rows), .grid_y = static_cast<uint32_t>(heads + 2 * kv_heads), .threads = 32};
}

// Most rows of a small and of a large QueryTile.
constexpr int32_t RowsOfTile(int32_t heads_per_kv) { return kTileRows / heads_per_kv; }
constexpr int32_t RowsOfPrefillTile(int32_t heads_per_kv) { return kPrefillTileRows / heads_per_kv; }

constexpr Launch AttentionPrefillLaunch(int32_t tiles, int32_t kv_heads, int32_t head_dim) {
  return {.grid_x = static_cast<uint32_t>(tiles),
          .grid_y = static_cast<uint32_t>(kv_heads),
          .shared_bytes = static_cast<uint32_t>(PrefillSharedBytes(head_dim))};
}

constexpr Launch AttentionDecodeLaunch(int32_t tiles, int32_t kv_heads, int32_t head_dim) {
  return {.grid_x = static_cast<uint32_t>(tiles),
          .grid_y = static_cast<uint32_t>(kv_heads),
          .shared_bytes = static_cast<uint32_t>(AttentionSharedBytes(head_dim))};
}

// `splits` as in AttentionParams.
constexpr Launch AttentionSplitLaunch(int32_t tiles, int32_t kv_heads, int32_t head_dim, int32_t splits) {
  Launch launch = AttentionDecodeLaunch(tiles, kv_heads, head_dim);
  launch.grid_z = static_cast<uint32_t>(splits);
  return launch;
}

constexpr Launch AttentionFoldLaunch(int32_t rows, int32_t heads) {
  return {.grid_x = static_cast<uint32_t>(rows), .grid_y = static_cast<uint32_t>(heads)};
}

// The split of the first token that a row sees.
constexpr int32_t FirstSplit(int32_t position, int32_t window) {
  return window == 0 ? 0 : std::max(position - window + 1, 0) / kSplitTokens;
}

// Splits of a tile, from the first that its rows see to the last.
constexpr int32_t SplitsOfTile(int32_t first_position, int32_t row_count, int32_t window) {
  return (first_position + row_count - 1) / kSplitTokens - FirstSplit(first_position, window) + 1;
}

constexpr Launch ActivateLaunch(int32_t rows, int32_t ffn) {
  return {.grid_x = static_cast<uint32_t>(rows), .grid_y = CeilDiv(ffn, 2 * kThreads)};
}

constexpr Launch ZeroRowsLaunch(int32_t layers, int32_t kv_heads) {
  return {.grid_x = static_cast<uint32_t>(layers), .grid_y = static_cast<uint32_t>(2 * kv_heads)};
}

constexpr Launch ArgmaxLaunch(int32_t rows) { return {.grid_x = static_cast<uint32_t>(rows), .threads = 1024}; }

constexpr Launch SampleLaunch(int32_t rows) { return ArgmaxLaunch(rows); }

constexpr Launch DigestLaunch(int32_t words) { return {.grid_x = CeilDiv(words, kDigestWords)}; }

static_assert(AttentionSharedBytes(kMostHeadDim) <= static_cast<int>(kMostSharedBytes));
static_assert(PrefillSharedBytes(kMostHeadDim) <= static_cast<int>(kMostSharedBytes));

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_LAUNCH_H_
