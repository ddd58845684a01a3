#include "engine/kernels/quantize_row.h"

#include <cstring>
#include <limits>

#include "common/check.h"
#include "engine/kernels/half.h"
#include "engine/kernels/kernel_table.h"

namespace baton::engine::kernels {
namespace {

using modelfile::TensorType;

// Four lanes, each an IEEE operation of its own: the same bits on every machine. A group's sums are added lane by lane
// and then as (0 + 1) + (2 + 3).
constexpr int kWide = 4;
using Wide = float __attribute__((vector_size(16)));
using WideInt = int32_t __attribute__((vector_size(16)));

constexpr float kMaxHalf = 65504.0f;
constexpr float kMaxNibble = 15.0f;
// Below this value scales are denormal halves, which are too coarse for a fit.
constexpr float kLeastUnit = 0x1p-14f;
// How many lines are tried on each side of the one from minimum to maximum, and how much each stretches the one before.
constexpr int kFitSteps = 4;
constexpr float kFitStep = 1.0f / 60;

Wide All(float x) { return Wide{x, x, x, x}; }

Wide Load(const float* p) {
  Wide x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

// Where `x` is not a number, `y`.
Wide Max(Wide x, Wide y) { return x > y ? x : y; }
Wide Min(Wide x, Wide y) { return x < y ? x : y; }
float Max(float x, float y) { return x > y ? x : y; }
float Min(float x, float y) { return x < y ? x : y; }

float Sum(Wide x) { return (x[0] + x[1]) + (x[2] + x[3]); }

// Rounds to nearest even within [low, high], both below 2^22. A NaN gives `low`.
Wide RoundWithin(Wide x, float low, float high) {
  const Wide integers_only = All(12582912.0f);  // 1.5 * 2^23
  return (Min(Max(x, All(low)), All(high)) + integers_only) - integers_only;
}

uint16_t ClampedHalf(float x) { return FloatToHalf(Min(Max(x, -kMaxHalf), kMaxHalf)); }

float InverseOf(uint16_t half) {
  const float x = HalfToFloat(half);
  return x == 0 ? 0 : 1.0f / x;
}

// round((x - base) * inverse) of a group.
void Quants(const float* x, float base, float inverse, float low, float high, int32_t* q) {
  for (int k = 0; k < kGroup; k += kWide) {
    const Wide rounded = RoundWithin((Load(x + k) - All(base)) * All(inverse), low, high);
    const WideInt integers = __builtin_convertvector(rounded, WideInt);
    std::memcpy(q + k, &integers, sizeof(integers));
  }
}

void QuantizeQ8_0(const float* x, uint8_t* block) {
  Wide largest = All(0);
  for (int k = 0; k < kGroup; k += kWide) largest = Max(Max(Load(x + k), -Load(x + k)), largest);
  const uint16_t scale = ClampedHalf(Max(Max(largest[0], largest[1]), Max(largest[2], largest[3])) / 127.0f);
  int32_t q[kGroup];
  Quants(x, 0, InverseOf(scale), -127, 127, q);
  std::memcpy(block, &scale, 2);
  for (int k = 0; k < kGroup; ++k) block[2 + k] = static_cast<uint8_t>(q[k]);
}

// A group as minimum + scale * q.
struct Line {
  float scale;
  float minimum;
};

// Tries lines whose quants span a little less or more than minimum to maximum, fits each to its quants by least
// squares, and returns the line with the least squared error.
Line FitLine(const float* x) {
  Wide low = Load(x);
  Wide high = low;
  for (int k = kWide; k < kGroup; k += kWide) {
    low = Min(Load(x + k), low);
    high = Max(Load(x + k), high);
  }
  const float least = Min(Min(low[0], low[1]), Min(low[2], low[3]));
  const float unit = (Max(Max(high[0], high[1]), Max(high[2], high[3])) - least) / kMaxNibble;
  Line best{.scale = unit, .minimum = least};
  if (!(unit > kLeastUnit && unit < kMaxHalf)) return best;
  // In units above the minimum.
  Wide t[kGroup / kWide];
  Wide t_sum = All(0);
  Wide tt_sum = All(0);
  for (int i = 0; i < kGroup / kWide; ++i) {
    t[i] = (Load(x + i * kWide) - All(least)) / All(unit);
    t_sum += t[i];
    tt_sum += t[i] * t[i];
  }
  const float tt = Sum(tt_sum);
  const float ts = Sum(t_sum);
  float best_error = std::numeric_limits<float>::max();
  for (int step = -kFitSteps; step <= kFitSteps; ++step) {
    const Wide stretch = All(1.0f + static_cast<float>(step) * kFitStep);
    Wide q_sum = All(0);
    Wide qq_sum = All(0);
    Wide qt_sum = All(0);
    for (int i = 0; i < kGroup / kWide; ++i) {
      const Wide q = RoundWithin(t[i] * stretch, 0, kMaxNibble);
      q_sum += q;
      qq_sum += q * q;
      qt_sum += q * t[i];
    }
    const float qs = Sum(q_sum);
    const float qt = Sum(qt_sum);
    const float determinant = kGroup * Sum(qq_sum) - qs * qs;
    if (!(determinant > 0)) continue;
    const float slope = (kGroup * qt - qs * ts) / determinant;
    const float start = (ts - slope * qs) / kGroup;
    const float error = tt - slope * qt - start * ts;
    if (!(error < best_error)) continue;
    best_error = error;
    best = {.scale = slope * unit, .minimum = least + start * unit};
  }
  return best;
}

void QuantizeQ4_1(const float* x, uint8_t* block) {
  const Line line = FitLine(x);
  const uint16_t scale = ClampedHalf(line.scale);
  const uint16_t minimum = ClampedHalf(line.minimum);
  int32_t q[kGroup];
  Quants(x, HalfToFloat(minimum), InverseOf(scale), 0, kMaxNibble, q);
  std::memcpy(block, &scale, 2);
  std::memcpy(block + 2, &minimum, 2);
  for (int k = 0; k < kGroup / 2; ++k) block[4 + k] = static_cast<uint8_t>(q[k] | q[k + 16] << 4);
}

}  // namespace

void QuantizeRow(const float* values, int64_t cols, TensorType type, uint8_t* blocks) {
  BATON_CHECK(type == TensorType::kQ8_0 || type == TensorType::kQ4_1) << "tensor type " << static_cast<int>(type);
  const size_t block_bytes = modelfile::TensorBlockBytes(type);
  for (int64_t k = 0; k < cols; k += kGroup, blocks += block_bytes) {
    if (type == TensorType::kQ8_0) {
      QuantizeQ8_0(values + k, blocks);
    } else {
      QuantizeQ4_1(values + k, blocks);
    }
  }
}

}  // namespace baton::engine::kernels
