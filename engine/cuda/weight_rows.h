// Rows of a model file's tensors in the formats that the kernels read (kernels/params.h, Matrix). What a kernel makes
// of such a row is bf16 of what kernels::DequantizeRow gives: no format loses anything that the file has.
#ifndef BATON_ENGINE_CUDA_WEIGHT_ROWS_H_
#define BATON_ENGINE_CUDA_WEIGHT_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cuda/kernels/params.h"
#include "modelfile/tensor_view.h"

namespace baton::engine::cuda {

// A tensor, and the type to which its rows are rounded first: its own, or for a float tensor one of QuantizeRow's.
struct RowSource {
  const modelfile::TensorView* tensor = nullptr;
  modelfile::TensorType type = modelfile::TensorType::kF32;
};

// What a Matrix says of its rows.
struct RowFormat {
  WeightFormat values = WeightFormat::kBf16;
  bool has_factors = false;
  // The pair of every element where there are no others: 1 and 1.
  uint16_t factor = 0x0101;

  friend bool operator==(const RowFormat&, const RowFormat&) = default;
};

RowFormat FormatFor(modelfile::TensorType type);
// The format that holds rows of both.
RowFormat CommonFormat(const RowFormat& a, const RowFormat& b);

// Bytes of one row of k elements in each part of a Matrix.
struct RowBytes {
  size_t values = 0;
  size_t scales = 0;
  size_t factors = 0;

  size_t total() const { return values + scales + factors; }
};
RowBytes BytesOfRow(const RowFormat& format, int64_t k);

// Where a row is written to. A part without bytes is not written.
struct RowPlace {
  uint8_t* values = nullptr;
  uint32_t* scales = nullptr;
  uint16_t* factors = nullptr;
};

// Encodes rows, one at a time. Holds scratch only; used by one thread.
class RowEncoder {
 public:
  // Row `index` of the source, in a format that CommonFormat gives of the source's and others.
  void Encode(const RowSource& source, int64_t index, const RowFormat& format, RowPlace to);

 private:
  // The row as it is in the file, or rounded; valid until the next call.
  modelfile::TensorView Read(const RowSource& source, int64_t index);

  std::vector<float> floats_;
  std::vector<uint8_t> blocks_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_WEIGHT_ROWS_H_
