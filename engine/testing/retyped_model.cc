#include "engine/testing/retyped_model.h"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/kernels/packed_matrix.h"
#include "engine/kernels/quantize_row.h"

namespace baton::engine {
namespace {

using modelfile::TensorType;
using modelfile::TensorView;

std::vector<uint8_t> Retype(const TensorView& tensor, TensorType type) {
  const auto cols = static_cast<size_t>(tensor.cols);
  const size_t row_bytes = cols / static_cast<size_t>(TensorBlockElements(type)) * modelfile::TensorBlockBytes(type);
  std::vector<float> values(cols);
  std::vector<uint8_t> data(static_cast<size_t>(tensor.rows) * row_bytes);
  for (int64_t row = 0; row < tensor.rows; ++row) {
    uint8_t* const to = data.data() + static_cast<size_t>(row) * row_bytes;
    kernels::DequantizeRow(tensor, row, values.data());
    if (type == TensorType::kF32) {
      std::memcpy(to, values.data(), row_bytes);
    } else {
      kernels::QuantizeRow(values.data(), tensor.cols, type, to);
    }
  }
  return data;
}

class RetypedModel final : public modelfile::ModelFile {
 public:
  RetypedModel(const modelfile::ModelFile& source, const TypeChoice& type_of)
      : source_(source), tensors_(source.tensors()) {
    for (TensorView& tensor : tensors_) {
      if (tensor.rows == 1) continue;
      const TensorType type = type_of(tensor);
      data_.push_back(Retype(tensor, type));
      tensor.type = type;
      tensor.data = data_.back().data();
      tensor.bytes = data_.back().size();
      tensor.scales = {};
    }
  }

  const modelfile::ModelConfig& config() const override { return source_.config(); }
  const modelfile::TokenizerSpec& tokenizer() const override { return source_.tokenizer(); }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TensorView* Find(std::string_view name) const override {
    for (const TensorView& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  Digest128 WeightsDigest() const override { return modelfile::DigestOfTensors(tensors_); }

 private:
  const modelfile::ModelFile& source_;
  std::vector<TensorView> tensors_;
  // Moving a vector keeps its buffer where it is.
  std::vector<std::vector<uint8_t>> data_;
};

}  // namespace

std::unique_ptr<modelfile::ModelFile> MakeRetypedModel(const modelfile::ModelFile& source, const TypeChoice& type_of) {
  return std::make_unique<RetypedModel>(source, type_of);
}

}  // namespace baton::engine
