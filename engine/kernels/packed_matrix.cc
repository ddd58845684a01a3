#include "engine/kernels/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/check.h"
#include "engine/kernels/gguf_quant_group.h"
#include "engine/kernels/half.h"
#include "engine/kernels/packed_layout.h"
#include "engine/kernels/quantize_row.h"

namespace baton::engine::kernels {
namespace {

using modelfile::TensorType;

// Whether a format's quants lie in the file almost as they do here. The other formats are read group by group.
bool IsPlain(WeightFormat format) { return format == WeightFormat::kQ8_0 || format <= WeightFormat::kQ4_0; }

// Bytes before the quants in a block of the file: f16 scale, for Q4_1 f16 minimum.
size_t HeaderBytes(WeightFormat format) { return format == WeightFormat::kQ4_1 ? 4 : 2; }
size_t FileBlockBytes(WeightFormat format) { return HeaderBytes(format) + (format == WeightFormat::kQ8_0 ? 32 : 16); }

void CopyFloats(TensorType type, const uint8_t* data, int64_t count, float* out) {
  if (type == TensorType::kF32) {
    std::memcpy(out, data, static_cast<size_t>(count) * sizeof(float));
  } else if (type == TensorType::kF16) {
    for (int64_t i = 0; i < count; ++i) out[i] = HalfToFloat(LoadU16(data + 2 * i));
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = Bf16ToFloat(LoadU16(data + 2 * i));
  }
}

std::array<float, 256> Fp8Values() {
  std::array<float, 256> values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = Fp8ToFloat(static_cast<uint8_t>(i));
  return values;
}

// Every element of a row times its scale.
void ScaleFp8(const modelfile::TensorView& row, float* out) {
  static const std::array<float, 256> kValues = Fp8Values();
  const float* scale = row.scales.values;
  for (int64_t first = 0; first < row.cols; first += row.scales.cols, ++scale) {
    const int64_t end = std::min(first + row.scales.cols, row.cols);
    for (int64_t i = first; i < end; ++i) out[i] = kValues[row.data[i]] * *scale;
  }
}

// Row `lane` of a block of a quantized matrix. In the file, byte j of a 4-bit group holds elements j and j + 16, and so
// does ours, so both kinds move by words of 4 k.
void PackPlainRow(const uint8_t* file, const PackedMatrix& matrix, int lane, uint8_t* block) {
  const int groups = matrix.cols / kGroup;
  const TailLayout tail = TailOf(matrix.format, groups);
  const size_t group_bytes = GroupDataBytes(matrix.format);
  const int quads = static_cast<int>(group_bytes / 64);
  const uint32_t flip = matrix.format == WeightFormat::kQ8_0 ? 0x80808080u : 0;
  for (int g = 0; g < groups; ++g) {
    const uint8_t* const from = file + static_cast<size_t>(g) * FileBlockBytes(matrix.format);
    uint8_t* const to = block + static_cast<size_t>(g) * group_bytes + lane * 4;
    for (int q = 0; q < quads; ++q) {
      const uint32_t word = LoadU32(from + HeaderBytes(matrix.format) + 4 * q) ^ flip;
      std::memcpy(to + 64 * q, &word, sizeof(word));
    }
    std::memcpy(block + tail.scales + g * 32 + lane * 2, from, 2);
    if (HasMinima(matrix.format)) std::memcpy(block + tail.minima + g * 32 + lane * 2, from + 2, 2);
  }
}

// Puts the quants of one group into their places, whose bytes are zero before. `to` is the row's byte of k = 0.
void PlaceQuants(const uint8_t* q, int upper_bits, uint8_t* to) {
  for (int k = 0; k < kGroup; ++k) {
    uint8_t* const place = to + k % 16 / 4 * 64 + k % 4;
    *place = static_cast<uint8_t>(*place | (q[k] & 15) << (k < 16 ? 0 : 4));
    if (upper_bits == 0) continue;
    const int per_byte = 8 / upper_bits;
    uint8_t* const upper = to + kNibbleBytes + k / 4 / per_byte * 64 + k % 4;
    *upper = static_cast<uint8_t>(*upper | (q[k] >> 4) << (k / 4 % per_byte * upper_bits));
  }
}

void PackFactoredRow(const uint8_t* file, const PackedMatrix& matrix, int lane, uint8_t* block) {
  const WeightFormat format = matrix.format;
  const int groups = matrix.cols / kGroup;
  const TailLayout tail = TailOf(format, groups);
  const size_t group_bytes = GroupDataBytes(format);
  for (int g = 0; g < groups; ++g) {
    const GgufQuantGroup group = ReadGgufQuantGroup(format, file, g);
    uint8_t* const to = block + static_cast<size_t>(g) * group_bytes + lane * 4;
    for (size_t i = 0; i < group_bytes; i += 64) std::memset(to + i, 0, 4);
    PlaceQuants(group.q, UpperBits(format), to);
    const int scale = HasFactors(format) ? g / kSuperGroups : g;
    std::memcpy(block + tail.scales + scale * 32 + lane * 2, &group.scale, 2);
    if (!HasFactors(format)) continue;
    uint8_t* const factors = block + tail.factors + static_cast<size_t>(g) * tail.factor_stride + lane;
    factors[0] = static_cast<uint8_t>(group.factors[0]);
    factors[kLanes] = HasMinima(format) ? group.minimum_factor : static_cast<uint8_t>(group.factors[1]);
    if (HasMinima(format)) {
      std::memcpy(block + tail.minima + scale * 32 + lane * 2, &group.minimum, 2);
    }
  }
}

void PackFloatRow(const modelfile::TensorView& row, const PackedMatrix& matrix, int lane, uint8_t* block) {
  if (matrix.format == WeightFormat::kF32) {
    constexpr int kMaxStep = kGroup * kSuperGroups;
    float values[kMaxStep];
    const int step = std::max(kGroup, TensorBlockElements(row.type));
    const size_t step_bytes = row.bytes / static_cast<size_t>(row.cols / step);
    for (int k = 0; k < matrix.cols; k += step) {
      modelfile::TensorView part = row;
      part.cols = step;
      part.bytes = step_bytes;
      part.data = row.data + static_cast<size_t>(k / step) * step_bytes;
      DequantizeRow(part, 0, values);
      for (int i = 0; i < step; ++i)
        std::memcpy(block + (static_cast<size_t>(k + i) * kLanes + lane) * 4, &values[i], 4);
    }
    return;
  }
  for (int k = 0; k < matrix.cols; ++k)
    std::memcpy(block + (static_cast<size_t>(k) * kLanes + lane) * 2, row.data + 2 * k, 2);
}

// Rows of a source, one at a time, in the type in which they are packed.
class RoundedRow {
 public:
  RoundedRow(const PackSource& source, WeightFormat format) : source_(source), type_(source.type) {
    if (type_ == TensorType::kF8E4M3) type_ = format == WeightFormat::kF32 ? TensorType::kF32 : TensorType::kBf16;
    if (type_ == source.tensor->type) return;
    const auto cols = static_cast<size_t>(source.tensor->cols);
    values_.resize(cols);
    blocks_.resize(cols / static_cast<size_t>(TensorBlockElements(type_)) * TensorBlockBytes(type_));
  }

  // A tensor of that row alone, valid until the next call.
  modelfile::TensorView Read(int64_t index) {
    const modelfile::TensorView& tensor = *source_.tensor;
    if (blocks_.empty()) return tensor.Row(index);
    DequantizeRow(tensor, index, values_.data());
    Round();
    modelfile::TensorView row{.name = {}, .type = type_, .rows = 1, .cols = tensor.cols};
    row.data = blocks_.data();
    row.bytes = blocks_.size();
    return row;
  }

 private:
  void Round() {
    if (type_ == TensorType::kF32) {
      std::memcpy(blocks_.data(), values_.data(), blocks_.size());
    } else if (type_ == TensorType::kBf16) {
      for (size_t i = 0; i < values_.size(); ++i) {
        const uint16_t rounded = FloatToBf16(values_[i]);
        std::memcpy(blocks_.data() + 2 * i, &rounded, sizeof(rounded));
      }
    } else {
      QuantizeRow(values_.data(), static_cast<int64_t>(values_.size()), type_, blocks_.data());
    }
  }

  const PackSource& source_;
  // The packed rows are of this type.
  TensorType type_;
  std::vector<float> values_;
  std::vector<uint8_t> blocks_;
};

void DequantizeGroup(const GgufQuantGroup& group, float* out) {
  const float scale = HalfToFloat(group.scale);
  const float minimum = HalfToFloat(group.minimum) * static_cast<float>(group.minimum_factor);
  for (int k = 0; k < kGroup; ++k) {
    const float d = scale * static_cast<float>(group.factors[k / 16]);
    out[k] = d * static_cast<float>(group.q[k] - group.offset) + minimum;
  }
}

// Packed weight k of a row, as unsigned as it lies there. `data` is the row's byte of k = 0.
int QuantAt(WeightFormat format, const uint8_t* data, int k) {
  if (format == WeightFormat::kQ8_0) return data[k / 4 * 64 + k % 4];
  const int byte = data[k % 16 / 4 * 64 + k % 4];
  const int nibble = k < 16 ? byte & 15 : byte >> 4;
  const int bits = UpperBits(format);
  if (bits == 0) return nibble;
  const int per_byte = 8 / bits;
  const int upper = data[kNibbleBytes + k / 4 / per_byte * 64 + k % 4] >> (k / 4 % per_byte * bits);
  return nibble | (upper & ((1 << bits) - 1)) << 4;
}

int OffsetOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0:
      return 128;
    case WeightFormat::kQ4_0:
      return 8;
    case WeightFormat::kQ5_0:
      return 16;
    case WeightFormat::kQ6_K:
      return 32;
    default:
      return 0;
  }
}

}  // namespace

WeightFormat FormatOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return WeightFormat::kF32;
    case TensorType::kF16:
      return WeightFormat::kF16;
    case TensorType::kBf16:
    case TensorType::kF8E4M3:
      return WeightFormat::kBf16;
    case TensorType::kQ8_0:
      return WeightFormat::kQ8_0;
    case TensorType::kQ4_0:
      return WeightFormat::kQ4_0;
    case TensorType::kQ4_1:
      return WeightFormat::kQ4_1;
    case TensorType::kQ5_0:
      return WeightFormat::kQ5_0;
    case TensorType::kQ4_K:
      return WeightFormat::kQ4_K;
    case TensorType::kQ5_K:
      return WeightFormat::kQ5_K;
    case TensorType::kQ6_K:
      return WeightFormat::kQ6_K;
  }
  BATON_CHECK(false) << "tensor type " << static_cast<int>(type);
  return WeightFormat::kF32;
}

PackedMatrix ShapeOf(WeightFormat format, int rows, int cols) {
  PackedMatrix m{.format = format, .rows = rows, .cols = cols, .col_blocks = (rows + kLanes - 1) / kLanes};
  size_t bytes = 0;
  if (m.quantized()) {
    bytes = TailOf(format, cols / kGroup).bytes;
  } else {
    bytes = static_cast<size_t>(cols) * kLanes * (format == WeightFormat::kF32 ? 4 : 2);
  }
  m.block_stride = (bytes + 63) / 64 * 64;
  return m;
}

void PackBlocks(const PackSource& source, int begin, int end, const PackedMatrix& matrix) {
  RoundedRow rounded(source, matrix.format);
  for (int b = begin; b < end; ++b) {
    uint8_t* const block = matrix.data + static_cast<size_t>(b) * matrix.block_stride;
    for (int lane = 0; lane < kLanes && b * kLanes + lane < matrix.rows; ++lane) {
      const modelfile::TensorView row = rounded.Read(source.order.Source(b * kLanes + lane));
      if (!matrix.quantized()) {
        PackFloatRow(row, matrix, lane, block);
      } else if (IsPlain(matrix.format)) {
        PackPlainRow(row.data, matrix, lane, block);
      } else {
        PackFactoredRow(row.data, matrix, lane, block);
      }
    }
  }
}

void DequantizeRow(const modelfile::TensorView& tensor, int64_t row, float* out) {
  const modelfile::TensorView view = tensor.Row(row);
  if (view.type == TensorType::kF8E4M3) return ScaleFp8(view, out);
  const uint8_t* const data = view.data;
  const WeightFormat format = FormatOf(tensor.type);
  if (format > WeightFormat::kQ8_0) return CopyFloats(tensor.type, data, tensor.cols, out);
  for (int64_t g = 0; g < tensor.cols / kGroup; ++g) {
    if (!IsPlain(format)) {
      DequantizeGroup(ReadGgufQuantGroup(format, data, g), out + g * kGroup);
      continue;
    }
    const uint8_t* const from = data + static_cast<size_t>(g) * FileBlockBytes(format);
    const uint8_t* const quants = from + HeaderBytes(format);
    const float d = HalfToFloat(LoadU16(from));
    float* const to = out + g * kGroup;
    const float m = HasMinima(format) ? HalfToFloat(LoadU16(from + 2)) : 0.0f;
    if (format == WeightFormat::kQ8_0) {
      for (int i = 0; i < kGroup; ++i) to[i] = d * static_cast<float>(static_cast<int8_t>(quants[i])) + m;
      continue;
    }
    const int offset = OffsetOf(format);
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
  const WeightFormat format = matrix.format;
  const int groups = matrix.cols / kGroup;
  const TailLayout tail = TailOf(format, groups);
  for (int g = 0; g < groups; ++g) {
    const uint8_t* const data = block + static_cast<size_t>(g) * GroupDataBytes(format) + lane * 4;
    const uint8_t* const factors = block + tail.factors + static_cast<size_t>(g) * tail.factor_stride + lane;
    const int scale = HasFactors(format) ? g / kSuperGroups : g;
    const float d = HalfToFloat(LoadU16(block + tail.scales + scale * 32 + lane * 2));
    float m = HasMinima(format) ? HalfToFloat(LoadU16(block + tail.minima + scale * 32 + lane * 2)) : 0.0f;
    float scaled[2] = {d, d};
    if (HasFactors(format) && HasMinima(format)) {
      scaled[0] = scaled[1] = d * static_cast<float>(factors[0]);
      m *= static_cast<float>(factors[kLanes]);
    } else if (HasFactors(format)) {
      for (int half = 0; half < 2; ++half)
        scaled[half] = d * static_cast<float>(static_cast<int8_t>(factors[half * kLanes]));
    }
    for (int k = 0; k < kGroup; ++k) {
      out[g * kGroup + k] = scaled[k / 16] * static_cast<float>(QuantAt(format, data, k) - OffsetOf(format)) + m;
    }
  }
}

}  // namespace baton::engine::kernels
