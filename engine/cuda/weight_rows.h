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

WeightFormat FormatFor(modelfile::TensorType type);
// The format that holds rows of both.
WeightFormat CommonFormat(WeightFormat a, WeightFormat b);

// Bytes of one row of k elements: of its values, and of its scales with their minima.
size_t ValueBytes(WeightFormat format, int64_t k);
size_t ScaleBytes(WeightFormat format, int64_t k);

// Encodes rows, one at a time. Holds scratch only; used by one thread.
class RowEncoder {
 public:
  // Row `index` of the source, in a format that CommonFormat gives of the source's and others. `scales` is not written
  // for kBf16.
  void Encode(const RowSource& source, int64_t index, WeightFormat format, uint8_t* values, float* scales);

 private:
  // The row as it is in the file, or rounded; valid until the next call.
  modelfile::TensorView Read(const RowSource& source, int64_t index);

  std::vector<float> floats_;
  std::vector<uint8_t> blocks_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_WEIGHT_ROWS_H_
