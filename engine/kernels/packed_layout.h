// Where the parts of a packed quantized block lie: see packed_matrix.h. Internal linkage: files of every instruction
// set use it.
#ifndef BATON_ENGINE_KERNELS_PACKED_LAYOUT_H_
#define BATON_ENGINE_KERNELS_PACKED_LAYOUT_H_

#include <cstddef>

#include "engine/kernels/kernel_table.h"

namespace baton::engine::kernels {
namespace {

// Groups of 32 that share one scale in the K formats.
inline constexpr int kSuperGroups = 8;
// 16 nibble pairs of 16 rows; upper bits follow them.
inline constexpr int kNibbleBytes = 256;

constexpr bool HasFactors(WeightFormat format) {
  return format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K || format == WeightFormat::kQ6_K;
}
constexpr bool HasMinima(WeightFormat format) {
  return format == WeightFormat::kQ4_1 || format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K;
}

// Bits of a weight beyond the nibble.
constexpr int UpperBits(WeightFormat format) {
  if (format == WeightFormat::kQ5_0 || format == WeightFormat::kQ5_K) return 1;
  return format == WeightFormat::kQ6_K ? 2 : 0;
}

// Bytes of one group's weights.
constexpr size_t GroupDataBytes(WeightFormat format) {
  if (format == WeightFormat::kQ8_0) return 512;
  return kNibbleBytes + static_cast<size_t>(UpperBits(format)) * 64;
}

// Offsets of what follows the weights of `groups` groups; a part that the format lacks has no bytes.
struct TailLayout {
  size_t factors = 0;        // u8 or, for Q6_K, i8
  size_t factor_stride = 0;  // bytes from group to group
  size_t scales = 0;         // f16
  size_t minima = 0;         // f16
  size_t bytes = 0;
};

constexpr TailLayout TailOf(WeightFormat format, int groups) {
  TailLayout t;
  const size_t scale_bytes = static_cast<size_t>(HasFactors(format) ? groups / kSuperGroups : groups) * 2 * kLanes;
  t.factors = static_cast<size_t>(groups) * GroupDataBytes(format);
  t.factor_stride = HasFactors(format) ? 2 * kLanes : 0;
  t.scales = t.factors + static_cast<size_t>(groups) * t.factor_stride;
  t.minima = t.scales + scale_bytes;
  t.bytes = t.minima + (HasMinima(format) ? scale_bytes : 0);
  return t;
}

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_PACKED_LAYOUT_H_
