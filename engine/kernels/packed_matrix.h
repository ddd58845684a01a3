// Weights as the kernels read them: blocks of 16 rows (output columns), the same on every instruction set.
//
// One block, `block_stride` bytes, K columns:
//   quantized: data [K / 32][GroupDataBytes], factors, scales, minima (packed_layout.h)
//     kQ8_0: [8 quads of k][16 rows][4 k], each byte the weight + 128
//     others: nibbles [4 quads of k][16 rows][4 k], the low one for k, the high one for k + 16; then the upper bits, of
//       kQ5_*: [16 rows][4 k], bit q of a byte for quad q of 8
//       kQ6_K: [2 halves][16 rows][4 k], bits 2 q and 2 q + 1 of a byte for quad q of 4 of k below 16, then of the
//       others
//     factors [K / 32][2][16]: of kQ4_K and kQ5_K u8 for the scale, for the minimum; of kQ6_K i8 for each half
//     scales, and minima of kQ4_1, kQ4_K, kQ5_K: [K / 32 or, with factors, K / 256][16] f16. Minima are added: those of
//       the K formats have their sign turned.
//   float: [K][16 rows] in the format's type
// Rows beyond the matrix's are zero.
#ifndef BATON_ENGINE_KERNELS_PACKED_MATRIX_H_
#define BATON_ENGINE_KERNELS_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "engine/kernels/kernel_table.h"
#include "modelfile/model_file.h"

namespace baton::engine::kernels {

struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  int rows = 0;
  int cols = 0;
  int col_blocks = 0;
  size_t block_stride = 0;
  // Not owned; col_blocks * block_stride bytes, 64-byte aligned.
  uint8_t* data = nullptr;

  bool quantized() const { return format <= WeightFormat::kQ8_0; }
  size_t bytes() const { return static_cast<size_t>(col_blocks) * block_stride; }
  const uint8_t* block(int b) const { return data + static_cast<size_t>(b) * block_stride; }
};

// The packed format that keeps the type of a file's tensor. kF8E4M3 has none: its elements times their scales are
// rounded to kBf16.
WeightFormat FormatOf(modelfile::TensorType type);

// The shape of a matrix, without data.
PackedMatrix ShapeOf(WeightFormat format, int rows, int cols);

// Which row of the file becomes row r of the packed matrix.
struct RowOrder {
  // 0: rows keep their order. Otherwise RoPE partners (i, i + head_dim / 2) of each head become neighbours (2i, 2i +
  // 1).
  int split_head_dim = 0;

  int Source(int r) const {
    if (split_head_dim == 0) return r;
    const int i = r % split_head_dim;
    return r - i + i % 2 * (split_head_dim / 2) + i / 2;
  }
};

// A tensor on its way into a packed matrix.
struct PackSource {
  const modelfile::TensorView* tensor = nullptr;
  // The tensor's own type, or for a float tensor one of QuantizeRow's, to which its rows are rounded first.
  modelfile::TensorType type = modelfile::TensorType::kF32;
  RowOrder order;
};

// Packs blocks [begin, end). The matrix's format is that of `source.type`, or kF32.
void PackBlocks(const PackSource& source, int begin, int end, const PackedMatrix& matrix);

// One row of a tensor as floats: d * q + m with a rounding after each operation; of kF8E4M3 its elements times their
// scales, rounded once.
void DequantizeRow(const modelfile::TensorView& tensor, int64_t row, float* out);

// One row of a packed matrix as floats, the same values as DequantizeRow's, but for kF8E4M3 in kBf16.
void UnpackRow(const PackedMatrix& matrix, int row, float* out);

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_PACKED_MATRIX_H_
