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
enum class TensorType : uint8_t { kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ4_K, kQ5_K, kQ6_K };

std::string_view TensorTypeName(TensorType type);

// Elements of a row are stored in blocks of this many (1 for float types), each of TensorBlockBytes.
int TensorBlockElements(TensorType type);
size_t TensorBlockBytes(TensorType type);

// A matrix [rows, cols], cols contiguous, or a vector (rows == 1). `cols` is a multiple of the block's elements.
// The data lives as long as the ModelFile.
struct TensorView {
  std::string name;
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
};

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
