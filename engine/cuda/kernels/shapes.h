// Shapes of tiles, which the kernels and the host functions of launch.h share. Needs no header of CUDA.
#ifndef BATON_ENGINE_CUDA_KERNELS_SHAPES_H_
#define BATON_ENGINE_CUDA_KERNELS_SHAPES_H_

#include "engine/cuda/kernels/params.h"

namespace baton::engine::cuda {

// Products of few rows: rows of a CTA, and its most threads. It has a warp for each split of K up to that.
inline constexpr int kFewRows = 8;
inline constexpr int kMostFewThreads = 256;

// Products of many rows: the tile of a CTA, elements of K of a stage, stages in flight, tiles of rows that go together.
inline constexpr int kManyColumns = 128;
inline constexpr int kManyRows = 64;
inline constexpr int kStageDepth = 64;
inline constexpr int kStages = 4;
inline constexpr int kRasterRows = 8;

inline constexpr int StageBytes(WeightFormat format) {
  const int acts = kManyRows * kStageDepth * 2;
  if (format == WeightFormat::kBf16) return acts + kManyColumns * kStageDepth * 2;
  if (format == WeightFormat::kFp8) return acts + kManyColumns * (kStageDepth + 4);
  const int values = format == WeightFormat::kInt8 ? kStageDepth : kStageDepth / 2;
  return acts + kManyColumns * (values + kStageDepth / kGroup * 4 + kStageDepth / ElementsOfFactors(format) * 2);
}

// Attention: rows of a tile, counting each query head as one. A row of shared memory is longer than head_dim, so that
// rows begin in different banks.
inline constexpr int kTileRows = 16;
inline constexpr int kQueryPadding = 16;
inline constexpr int kValuePadding = 8;
inline constexpr int kProbabilityStride = kSplitTokens + 8;
inline constexpr int kQuarters = 4;
inline constexpr int kQuarterTokens = kSplitTokens / kQuarters;
inline constexpr int kMostHeadDim = 256;

inline constexpr int AttentionSharedBytes(int head_dim) {
  const int halves = kTileRows * (head_dim + kQueryPadding) + kTileRows * kProbabilityStride +
                     kSplitTokens * (head_dim + kValuePadding);
  return halves * 2 + 2 * kQuarters * kTileRows * 4;
}

// Attention of prefill: rows of a tile, kTileRows to a warp. Two stages of a quarter's K or V, and what is
// left of the splits so far.
inline constexpr int kPrefillTileRows = 64;
inline constexpr int kKeyPadding = 16;

inline constexpr int PrefillSharedBytes(int head_dim) {
  return 2 * kQuarterTokens * (head_dim + kKeyPadding) * 2 + kPrefillTileRows * head_dim * 4 + kThreads * 2 * 8;
}

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_SHAPES_H_
