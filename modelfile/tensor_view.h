// The types that weights are stored in, and views of tensors in mapped memory.
#ifndef BATON_MODELFILE_TENSOR_VIEW_H_
#define BATON_MODELFILE_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::modelfile {

// The K types are ggml's "k-quants": 256 elements share a scale, and 16 or 32 of these share a small integer factor.
// kF8E4M3 is the FP8 of Hugging Face checkpoints: a sign, 4 bits of exponent, 3 of mantissa and no infinities. It has
// scales beside its bytes (BlockScales), and is in no GGUF file.
enum class TensorType : uint8_t { kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ4_K, kQ5_K, kQ6_K, kF8E4M3 };

std::string_view TensorTypeName(TensorType type);

// Elements of a row are stored in blocks of this many (1 for float types), each of TensorBlockBytes.
int TensorBlockElements(TensorType type);
size_t TensorBlockBytes(TensorType type);

// The scales of a matrix of type kF8E4M3: element (r, c) stands for what its byte says times
// values[r / rows * ceil(columns of the matrix / cols) + c / cols]. Every scale is finite and not negative, and so is
// its product with 448, the largest element.
struct BlockScales {
  // Null for all other types.
  const float* values = nullptr;
  // Elements that share a scale: all of the matrix, a row, or a block of 128 by 128.
  int64_t rows = 1;
  int64_t cols = 1;
};

// A matrix [rows, cols], cols contiguous, or a vector (rows == 1). `cols` is a multiple of the block's elements.
// The data lives as long as the ModelFile.
struct TensorView {
  std::string name;
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
  BlockScales scales = {};

  // Number of scales of a row; 0 for types without them.
  int64_t ScalesOfRow() const { return scales.values == nullptr ? 0 : (cols + scales.cols - 1) / scales.cols; }
  // One row of it, without the name.
  TensorView Row(int64_t index) const;
};

inline TensorView TensorView::Row(int64_t index) const {
  TensorView row{.name = {}, .type = type, .rows = 1, .cols = cols};
  row.bytes = bytes / static_cast<size_t>(rows);
  row.data = data + static_cast<size_t>(index) * row.bytes;
  if (scales.values != nullptr) {
    row.scales = {.values = scales.values + index / scales.rows * ScalesOfRow(), .rows = 1, .cols = scales.cols};
  }
  return row;
}

// What a file states about a tensor, of whatever type and shape.
struct StoredTensor {
  std::string name;
  std::string type;
  // The dimension whose neighbours are contiguous comes last.
  std::vector<int64_t> shape;
  uint64_t bytes = 0;

  // Both kinds of file bound the product.
  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TENSOR_VIEW_H_
