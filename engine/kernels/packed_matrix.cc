#include "engine/kernels/packed_matrix.h"

#include <cstring>

#include "common/check.h"
#include "engine/kernels/half.h"

namespace baton::engine::kernels {
namespace {

using modelfile::TensorType;

size_t GroupBytes(WeightFormat format) { return format == WeightFormat::kQ8_0 ? 512 : 256; }
size_t ScaleBytes(WeightFormat format) { return format == WeightFormat::kQ4_1 ? 64 : 32; }

// Bytes before the quants in a block of the file: f16 scale, for Q4_1 f16 minimum.
size_t HeaderBytes(WeightFormat format) { return format == WeightFormat::kQ4_1 ? 4 : 2; }
size_t FileBlockBytes(WeightFormat format) { return HeaderBytes(format) + (format == WeightFormat::kQ8_0 ? 32 : 16); }

float FloatAt(TensorType type, const uint8_t* data, int64_t i) {
  if (type == TensorType::kF32) return BitsToFloat(LoadU32(data + 4 * i));
  const uint16_t bits = LoadU16(data + 2 * i);
  return type == TensorType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
}

const uint8_t* RowData(const modelfile::TensorView& tensor, int64_t row) {
  return tensor.data + row * (tensor.bytes / static_cast<size_t>(tensor.rows));
}

// Row `lane` of a block of a quantized matrix. In the file, byte j of a 4-bit group holds elements j and j + 16, and so
// does ours, so both kinds move by words of 4 k.
void PackQuantRow(const uint8_t* file, const PackedMatrix& matrix, int lane, uint8_t* block) {
  const int groups = matrix.cols / kGroup;
  const size_t group_bytes = GroupBytes(matrix.format);
  const int quads = static_cast<int>(group_bytes / 64);
  const uint32_t flip = matrix.format == WeightFormat::kQ8_0 ? 0x80808080u : 0;
  uint8_t* const scales = block + static_cast<size_t>(groups) * group_bytes;
  uint8_t* const minima = scales + static_cast<size_t>(groups) * 32;
  for (int g = 0; g < groups; ++g) {
    const uint8_t* const from = file + static_cast<size_t>(g) * FileBlockBytes(matrix.format);
    uint8_t* const to = block + static_cast<size_t>(g) * group_bytes + lane * 4;
    for (int q = 0; q < quads; ++q) {
      const uint32_t word = LoadU32(from + HeaderBytes(matrix.format) + 4 * q) ^ flip;
      std::memcpy(to + 64 * q, &word, sizeof(word));
    }
    std::memcpy(scales + g * 32 + lane * 2, from, 2);
    if (matrix.format == WeightFormat::kQ4_1) std::memcpy(minima + g * 32 + lane * 2, from + 2, 2);
  }
}

void PackFloatRow(const modelfile::TensorView& tensor, int64_t row, const PackedMatrix& matrix, int lane,
                  uint8_t* block) {
  const uint8_t* const from = RowData(tensor, row);
  if (matrix.format == WeightFormat::kF32) {
    float values[kGroup];
    const int step = kGroup;
    const size_t step_bytes = tensor.bytes / static_cast<size_t>(tensor.rows) / static_cast<size_t>(tensor.cols / step);
    for (int k = 0; k < matrix.cols; k += step) {
      modelfile::TensorView part = tensor;
      part.rows = 1;
      part.cols = step;
      part.bytes = step_bytes;
      part.data = from + static_cast<size_t>(k / step) * step_bytes;
      DequantizeRow(part, 0, values);
      for (int i = 0; i < step; ++i)
        std::memcpy(block + (static_cast<size_t>(k + i) * kLanes + lane) * 4, &values[i], 4);
    }
    return;
  }
  for (int k = 0; k < matrix.cols; ++k)
    std::memcpy(block + (static_cast<size_t>(k) * kLanes + lane) * 2, from + 2 * k, 2);
}

}  // namespace

WeightFormat FormatOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return WeightFormat::kF32;
    case TensorType::kF16:
      return WeightFormat::kF16;
    case TensorType::kBf16:
      return WeightFormat::kBf16;
    case TensorType::kQ8_0:
      return WeightFormat::kQ8_0;
    case TensorType::kQ4_0:
      return WeightFormat::kQ4_0;
    case TensorType::kQ4_1:
      return WeightFormat::kQ4_1;
    default:
      break;
  }
  BATON_CHECK(false) << "tensor type " << static_cast<int>(type);
  return WeightFormat::kF32;
}

PackedMatrix ShapeOf(WeightFormat format, int rows, int cols) {
  PackedMatrix m{.format = format, .rows = rows, .cols = cols, .col_blocks = (rows + kLanes - 1) / kLanes};
  size_t bytes = 0;
  if (m.quantized()) {
    bytes = static_cast<size_t>(cols / kGroup) * (GroupBytes(format) + ScaleBytes(format));
  } else {
    bytes = static_cast<size_t>(cols) * kLanes * (format == WeightFormat::kF32 ? 4 : 2);
  }
  m.block_stride = (bytes + 63) / 64 * 64;
  return m;
}

void PackBlocks(const modelfile::TensorView& tensor, RowOrder order, int begin, int end, const PackedMatrix& matrix) {
  for (int b = begin; b < end; ++b) {
    uint8_t* const block = matrix.data + static_cast<size_t>(b) * matrix.block_stride;
    for (int lane = 0; lane < kLanes && b * kLanes + lane < matrix.rows; ++lane) {
      const int row = order.Source(b * kLanes + lane);
      if (matrix.quantized()) {
        PackQuantRow(RowData(tensor, row), matrix, lane, block);
      } else {
        PackFloatRow(tensor, row, matrix, lane, block);
      }
    }
  }
}

void DequantizeRow(const modelfile::TensorView& tensor, int64_t row, float* out) {
  const uint8_t* const data = RowData(tensor, row);
  const WeightFormat format = FormatOf(tensor.type);
  if (format > WeightFormat::kQ8_0) {
    for (int64_t k = 0; k < tensor.cols; ++k) out[k] = FloatAt(tensor.type, data, k);
    return;
  }
  for (int64_t g = 0; g < tensor.cols / kGroup; ++g) {
    const uint8_t* const from = data + static_cast<size_t>(g) * FileBlockBytes(format);
    const uint8_t* const quants = from + HeaderBytes(format);
    const float d = HalfToFloat(LoadU16(from));
    float* const to = out + g * kGroup;
    if (format == WeightFormat::kQ8_0) {
      for (int i = 0; i < kGroup; ++i) to[i] = d * static_cast<float>(static_cast<int8_t>(quants[i]));
      continue;
    }
    const int offset = format == WeightFormat::kQ4_0 ? 8 : 0;
    const float m = format == WeightFormat::kQ4_1 ? HalfToFloat(LoadU16(from + 2)) : 0.0f;
    for (int i = 0; i < kGroup / 2; ++i) {
      to[i] = d * static_cast<float>((quants[i] & 15) - offset) + m;
      to[i + 16] = d * static_cast<float>((quants[i] >> 4) - offset) + m;
    }
  }
}

void UnpackRow(const PackedMatrix& matrix, int row, float* out) {
  const uint8_t* const block = matrix.block(row / kLanes);
  const int lane = row % kLanes;
  if (!matrix.quantized()) {
    for (int k = 0; k < matrix.cols; ++k) {
      const size_t i = static_cast<size_t>(k) * kLanes + static_cast<size_t>(lane);
      if (matrix.format == WeightFormat::kF32) {
        out[k] = BitsToFloat(LoadU32(block + 4 * i));
      } else {
        const uint16_t bits = LoadU16(block + 2 * i);
        out[k] = matrix.format == WeightFormat::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
      }
    }
    return;
  }
  const int groups = matrix.cols / kGroup;
  const size_t group_bytes = GroupBytes(matrix.format);
  const uint8_t* const scales = block + static_cast<size_t>(groups) * group_bytes;
  const uint8_t* const minima = scales + static_cast<size_t>(groups) * 32;
  for (int g = 0; g < groups; ++g) {
    const uint8_t* const data = block + static_cast<size_t>(g) * group_bytes + lane * 4;
    const float d = HalfToFloat(LoadU16(scales + g * 32 + lane * 2));
    const float m = matrix.format == WeightFormat::kQ4_1 ? HalfToFloat(LoadU16(minima + g * 32 + lane * 2)) : 0.0f;
    for (int k = 0; k < kGroup; ++k) {
      float* const to = out + g * kGroup + k;
      if (matrix.format == WeightFormat::kQ8_0) {
        *to = d * static_cast<float>(data[k / 4 * 64 + k % 4] - 128);
        continue;
      }
      const int byte = data[k % 16 / 4 * 64 + k % 4];
      const int q = k < 16 ? byte & 15 : byte >> 4;
      *to = d * static_cast<float>(matrix.format == WeightFormat::kQ4_0 ? q - 8 : q) + m;
    }
  }
}

}  // namespace baton::engine::kernels
