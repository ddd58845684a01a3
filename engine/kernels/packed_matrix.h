// Weights as the kernels read them: blocks of 16 rows (output columns), the same on every instruction set.
//
// One block, `block_stride` bytes, K columns:
//   quantized: data [K / 32][256 or 512 B], then scales [K / 32][16] f16, then for kQ4_1 minima [K / 32][16] f16
//     kQ8_0: [8 quads of k][16 rows][4 k], each byte the weight + 128
//     kQ4_*: [4 quads of k][16 rows][4 k], the low nibble for k, the high one for k + 16
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

// The format that keeps a file's type as it is.
WeightFormat FormatOf(modelfile::TensorType type);

// Shape without data.
PackedMatrix ShapeOf(WeightFormat format, int rows, int cols);

// Which row of the file becomes row r of the packed matrix.
struct RowOrder {
  // 0: the same. Else RoPE partners (i, i + head_dim / 2) of each head become neighbours (2i, 2i + 1).
  int split_head_dim = 0;

  int Source(int r) const {
    if (split_head_dim == 0) return r;
    const int i = r % split_head_dim;
    return r - i + i % 2 * (split_head_dim / 2) + i / 2;
  }
};

// Packs blocks [begin, end). The matrix's format is the tensor's own, or kF32 for any tensor.
void PackBlocks(const modelfile::TensorView& tensor, RowOrder order, int begin, int end, const PackedMatrix& matrix);

// One row of a tensor as floats: d * q + m with a rounding after each operation.
void DequantizeRow(const modelfile::TensorView& tensor, int64_t row, float* out);

// One row of a packed matrix as floats, the same values as DequantizeRow's.
void UnpackRow(const PackedMatrix& matrix, int row, float* out);

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_PACKED_MATRIX_H_
