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

// 32 weights: scale of the half times q, plus minimum.
struct QuantGroup {
  int8_t q[kGroup];
  float scales[2];
  float minimum;
};

// Byte j of the nibbles holds weight j in its lower half and weight j + 16 in its upper one.
void ReadNibbles(const uint8_t* nibbles, QuantGroup& group) {
  for (int i = 0; i < kGroup / 2; ++i) {
    group.q[i] = static_cast<int8_t>(nibbles[i] & 15);
    group.q[i + kGroup / 2] = static_cast<int8_t>(nibbles[i] >> 4);
  }
}

// For the types of FormatFor(type) == kInt4 q is 0 to 15.
QuantGroup ReadGroup(TensorType type, const uint8_t* row, int64_t g) {
  QuantGroup group{};
  const uint8_t* const block = row + static_cast<size_t>(g) * modelfile::TensorBlockBytes(type);
  if (type == TensorType::kQ4_0 || type == TensorType::kQ4_1 || type == TensorType::kQ8_0) {
    const float scale = kernels::HalfToFloat(kernels::LoadU16(block));
    group.scales[0] = group.scales[1] = scale;
    if (type == TensorType::kQ8_0) {
      std::memcpy(group.q, block + 2, kGroup);
    } else if (type == TensorType::kQ4_0) {
      group.minimum = -8.0f * scale;
      ReadNibbles(block + 2, group);
    } else {
      group.minimum = kernels::HalfToFloat(kernels::LoadU16(block + 2));
      ReadNibbles(block + 4, group);
    }
    return group;
  }
  // This one finds its blocks by itself: those of the K types hold eight groups.
  const kernels::GgufQuantGroup read = kernels::ReadGgufQuantGroup(kernels::FormatOf(type), row, g);
  const float scale = kernels::HalfToFloat(read.scale);
  for (int half = 0; half < 2; ++half) group.scales[half] = scale * static_cast<float>(read.factors[half]);
  group.minimum = kernels::HalfToFloat(read.minimum) * static_cast<float>(read.minimum_factor);
  for (int i = 0; i < kGroup; ++i) group.q[i] = static_cast<int8_t>(read.q[i] - read.offset);
  return group;
}

void EncodeInt4(const TensorView& row, uint8_t* values, float* scales) {
  for (int64_t g = 0; g < row.cols / kGroup; ++g) {
    const QuantGroup group = ReadGroup(row.type, row.data, g);
    for (int i = 0; i < kGroup; i += 2) *values++ = static_cast<uint8_t>(group.q[i] | group.q[i + 1] << 4);
    *scales++ = group.scales[0];
    *scales++ = group.minimum;
  }
}

void EncodeInt8(const TensorView& row, uint8_t* values, float* scales) {
  for (int64_t g = 0; g < row.cols / kGroup; ++g, values += kGroup) {
    const QuantGroup group = ReadGroup(row.type, row.data, g);
    std::memcpy(values, group.q, kGroup);
    for (const float scale : group.scales) {
      *scales++ = scale;
      *scales++ = group.minimum;
    }
  }
}

}  // namespace

WeightFormat FormatFor(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBf16:
      return WeightFormat::kBf16;
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
      return WeightFormat::kInt4;
    case TensorType::kQ8_0:
    case TensorType::kQ5_0:
    case TensorType::kQ5_K:
    case TensorType::kQ6_K:
      return WeightFormat::kInt8;
  }
  BATON_CHECK(false) << "tensor type " << static_cast<int>(type);
  return WeightFormat::kBf16;
}

WeightFormat CommonFormat(WeightFormat a, WeightFormat b) {
  if (a == b) return a;
  const bool has_floats = a == WeightFormat::kBf16 || b == WeightFormat::kBf16;
  return has_floats ? WeightFormat::kBf16 : WeightFormat::kInt8;
}

size_t ValueBytes(WeightFormat format, int64_t k) {
  const size_t elements = static_cast<size_t>(k);
  if (format == WeightFormat::kBf16) return elements * sizeof(Bf16);
  return format == WeightFormat::kInt8 ? elements : elements / 2;
}

size_t ScaleBytes(WeightFormat format, int64_t k) {
  if (format == WeightFormat::kBf16) return 0;
  return static_cast<size_t>(k / (format == WeightFormat::kInt8 ? kGroup / 2 : kGroup)) * 2 * sizeof(float);
}

TensorView RowEncoder::Read(const RowSource& source, int64_t index) {
  const TensorView& tensor = *source.tensor;
  TensorView row{.name = {}, .type = source.type, .rows = 1, .cols = tensor.cols};
  if (source.type == tensor.type) {
    row.bytes = tensor.bytes / static_cast<size_t>(tensor.rows);
    row.data = tensor.data + static_cast<size_t>(index) * row.bytes;
    return row;
  }
  floats_.resize(static_cast<size_t>(tensor.cols));
  blocks_.resize(static_cast<size_t>(tensor.cols / kGroup) * modelfile::TensorBlockBytes(source.type));
  kernels::DequantizeRow(tensor, index, floats_.data());
  kernels::QuantizeRow(floats_.data(), tensor.cols, source.type, blocks_.data());
  row.data = blocks_.data();
  row.bytes = blocks_.size();
  return row;
}

void RowEncoder::Encode(const RowSource& source, int64_t index, WeightFormat format, uint8_t* values, float* scales) {
  const TensorView row = Read(source, index);
  if (format == WeightFormat::kInt4) return EncodeInt4(row, values, scales);
  if (format == WeightFormat::kInt8) return EncodeInt8(row, values, scales);
  floats_.resize(static_cast<size_t>(row.cols));
  kernels::DequantizeRow(row, 0, floats_.data());
  for (int64_t i = 0; i < row.cols; ++i) {
    const Bf16 rounded = kernels::FloatToBf16(floats_[static_cast<size_t>(i)]);
    std::memcpy(values + 2 * i, &rounded, sizeof(rounded));
  }
}

}  // namespace baton::engine::cuda
