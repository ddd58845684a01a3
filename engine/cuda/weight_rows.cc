#include "engine/cuda/weight_rows.h"

#include <cstring>

#include "common/check.h"
#include "engine/kernels/gguf_quant_group.h"
#include "engine/kernels/half.h"
#include "engine/kernels/packed_matrix.h"
#include "engine/kernels/quantize_row.h"

namespace baton::engine::cuda {
namespace {

using modelfile::TensorType;
using modelfile::TensorView;

// Factors 1 and -8: a minimum of -8 times the scale, which an f16 may not hold.
constexpr uint16_t kMinusEight = 0xf801;

// 32 weights: f16 scale times the factor of the half times q, plus f16 minimum times its factor.
struct QuantGroup {
  int8_t q[kGroup];
  uint16_t scale;
  uint16_t minimum;
  int8_t factors[2];
  int8_t minimum_factor;
};

// Byte j of the nibbles holds weight j in its lower half and weight j + 16 in its upper one.
void ReadNibbles(const uint8_t* nibbles, QuantGroup& group) {
  for (int i = 0; i < kGroup / 2; ++i) {
    group.q[i] = static_cast<int8_t>(nibbles[i] & 15);
    group.q[i + kGroup / 2] = static_cast<int8_t>(nibbles[i] >> 4);
  }
}

QuantGroup ReadGroup(TensorType type, const uint8_t* row, int64_t g, const RowFormat& format) {
  QuantGroup group{};
  const uint8_t* const block = row + static_cast<size_t>(g) * modelfile::TensorBlockBytes(type);
  if (type == TensorType::kQ4_0 || type == TensorType::kQ4_1 || type == TensorType::kQ8_0) {
    group.scale = kernels::LoadU16(block);
    if (type == TensorType::kQ8_0) {
      std::memcpy(group.q, block + 2, kGroup);
    } else if (type == TensorType::kQ4_1) {
      group.minimum = kernels::LoadU16(block + 2);
      ReadNibbles(block + 4, group);
    } else {
      ReadNibbles(block + 2, group);
      if (format.factor == kMinusEight) {
        group.minimum = group.scale;
      } else {
        for (int8_t& q : group.q) q = static_cast<int8_t>(q - 8);
      }
    }
    return group;
  }
  // This one finds its blocks by itself: those of the K types hold eight groups.
  const kernels::GgufQuantGroup read = kernels::ReadGgufQuantGroup(kernels::FormatOf(type), row, g);
  group.scale = read.scale;
  group.minimum = read.minimum;
  std::memcpy(group.factors, read.factors, sizeof(group.factors));
  group.minimum_factor = static_cast<int8_t>(read.minimum_factor);
  for (int i = 0; i < kGroup; ++i) group.q[i] = static_cast<int8_t>(read.q[i] - read.offset);
  return group;
}

void EncodeGroups(const TensorView& row, const RowFormat& format, RowPlace to) {
  const bool is_int8 = format.values == WeightFormat::kInt8;
  for (int64_t g = 0; g < row.cols / kGroup; ++g) {
    const QuantGroup group = ReadGroup(row.type, row.data, g, format);
    if (is_int8) {
      std::memcpy(to.values + g * kGroup, group.q, kGroup);
    } else {
      for (int i = 0; i < kGroup; i += 2) *to.values++ = static_cast<uint8_t>(group.q[i] | group.q[i + 1] << 4);
    }
    const uint32_t pair = group.scale | static_cast<uint32_t>(group.minimum) << 16;
    if (!format.has_factors) {
      to.scales[g] = pair;
      continue;
    }
    to.scales[g * kGroup / kSuperGroup] = pair;
    for (int half = 0; half < (is_int8 ? 2 : 1); ++half) {
      *to.factors++ = static_cast<uint16_t>(static_cast<uint8_t>(group.factors[half]) |
                                            static_cast<uint8_t>(group.minimum_factor) << 8);
    }
  }
}

// The file has a scale for so many elements or for the whole row.
void EncodeFp8(const TensorView& row, RowPlace to) {
  static_assert(sizeof(float) == sizeof(*to.scales));
  BATON_CHECK(row.scales.cols % kFp8Group == 0 || row.scales.cols >= row.cols) << row.scales.cols;
  std::memcpy(to.values, row.data, row.bytes);
  for (int64_t i = 0; i * kFp8Group < row.cols; ++i) {
    std::memcpy(to.scales + i, row.scales.values + i * kFp8Group / row.scales.cols, sizeof(float));
  }
}

bool HasIntegers(const RowFormat& format) {
  return format.values == WeightFormat::kInt8 || format.values == WeightFormat::kInt4;
}

}  // namespace

RowFormat FormatFor(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBf16:
      return {};
    case TensorType::kQ4_0:
      return {.values = WeightFormat::kInt4, .factor = kMinusEight};
    case TensorType::kQ4_1:
      return {.values = WeightFormat::kInt4};
    case TensorType::kQ4_K:
      return {.values = WeightFormat::kInt4, .has_factors = true};
    case TensorType::kQ8_0:
    case TensorType::kQ5_0:
      return {.values = WeightFormat::kInt8};
    case TensorType::kQ5_K:
    case TensorType::kQ6_K:
      return {.values = WeightFormat::kInt8, .has_factors = true};
    case TensorType::kF8E4M3:
      return {.values = WeightFormat::kFp8};
  }
  BATON_CHECK(false) << "tensor type " << static_cast<int>(type);
  return {};
}

RowFormat CommonFormat(const RowFormat& a, const RowFormat& b) {
  if (a == b) return a;
  // The scale of a group of its own is no product of a super-group's, nor the other way around.
  if (!HasIntegers(a) || !HasIntegers(b) || a.has_factors != b.has_factors) return {};
  return {.values = WeightFormat::kInt8, .has_factors = a.has_factors};
}

RowBytes BytesOfRow(const RowFormat& format, int64_t k) {
  const size_t elements = static_cast<size_t>(k);
  if (format.values == WeightFormat::kBf16) return {.values = elements * sizeof(Bf16)};
  if (format.values == WeightFormat::kFp8) {
    return {.values = elements, .scales = static_cast<size_t>(Fp8ScalesOfRow(static_cast<int32_t>(k))) * sizeof(float)};
  }
  RowBytes bytes{.values = format.values == WeightFormat::kInt8 ? elements : elements / 2};
  bytes.scales = elements / (format.has_factors ? kSuperGroup : kGroup) * sizeof(uint32_t);
  if (format.has_factors) {
    bytes.factors = elements / static_cast<size_t>(ElementsOfFactors(format.values)) * sizeof(uint16_t);
  }
  return bytes;
}

TensorView RowEncoder::Read(const RowSource& source, int64_t index) {
  const TensorView& tensor = *source.tensor;
  if (source.type == tensor.type) return tensor.Row(index);
  TensorView row{.name = {}, .type = source.type, .rows = 1, .cols = tensor.cols};
  floats_.resize(static_cast<size_t>(tensor.cols));
  blocks_.resize(static_cast<size_t>(tensor.cols / kGroup) * modelfile::TensorBlockBytes(source.type));
  kernels::DequantizeRow(tensor, index, floats_.data());
  kernels::QuantizeRow(floats_.data(), tensor.cols, source.type, blocks_.data());
  row.data = blocks_.data();
  row.bytes = blocks_.size();
  return row;
}

void RowEncoder::Encode(const RowSource& source, int64_t index, const RowFormat& format, RowPlace to) {
  const TensorView row = Read(source, index);
  if (format.values == WeightFormat::kFp8) return EncodeFp8(row, to);
  if (format.values != WeightFormat::kBf16) return EncodeGroups(row, format, to);
  floats_.resize(static_cast<size_t>(row.cols));
  kernels::DequantizeRow(row, 0, floats_.data());
  for (int64_t i = 0; i < row.cols; ++i) {
    const Bf16 rounded = kernels::FloatToBf16(floats_[static_cast<size_t>(i)]);
    std::memcpy(to.values + 2 * i, &rounded, sizeof(rounded));
  }
}

}  // namespace baton::engine::cuda
