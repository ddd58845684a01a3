// Builds small GGUF v3 files in memory: for tests, fuzz corpora and tiny models. Checks nothing, so that it can write
// damaged files as well.
#ifndef BATON_MODELFILE_TESTING_GGUF_WRITER_H_
#define BATON_MODELFILE_TESTING_GGUF_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "modelfile/gguf_format.h"
#include "modelfile/tensor_view.h"

namespace baton::modelfile {

struct GgufTensorSpec {
  std::string name = {};
  TensorType type = TensorType::kF32;
  // A vector has rows == 1 and is written with one dimension, as converters do.
  int64_t rows = 1;
  int64_t cols = 0;
  std::vector<uint8_t> bytes = {};
};

// The entry of a tensor as the file has it.
struct GgufRawTensor {
  std::string name = {};
  std::vector<uint64_t> dims = {};
  uint32_t type = 0;
  uint64_t offset = 0;
};

class GgufWriter {
 public:
  GgufWriter& AddString(std::string_view key, std::string_view value);
  GgufWriter& AddU32(std::string_view key, uint32_t value);
  GgufWriter& AddF32(std::string_view key, float value);
  GgufWriter& AddBool(std::string_view key, bool value);
  GgufWriter& AddStringArray(std::string_view key, absl::Span<const std::string> values);
  GgufWriter& AddI32Array(std::string_view key, absl::Span<const int32_t> values);
  GgufWriter& AddF32Array(std::string_view key, absl::Span<const float> values);
  // Writes `payload` after the type's number, unchanged.
  GgufWriter& AddRaw(std::string_view key, uint32_t type, absl::Span<const uint8_t> payload);

  // Finish lays the data out in the order of these calls.
  GgufWriter& AddTensor(GgufTensorSpec tensor);
  GgufWriter& AddF32Tensor(std::string_view name, int64_t rows, int64_t cols, absl::Span<const float> values);
  // Adds an entry without data.
  GgufWriter& AddRawTensor(GgufRawTensor tensor);

  // The alignment used for the layout; a value other than 32 must also be added as `general.alignment`.
  GgufWriter& SetAlignment(uint32_t alignment);

  // The file has no padding after the last tensor, so that every byte matters.
  std::vector<uint8_t> Finish() const;

 private:
  void AddKey(std::string_view key, GgufType type);

  uint64_t entries_ = 0;
  std::vector<uint8_t> metadata_;
  std::vector<GgufRawTensor> infos_;
  std::vector<uint8_t> tensor_data_;
  uint32_t alignment_ = 32;
};

// Appends `value` as it lies in memory.
template <typename T>
void AppendLittleEndian(std::vector<uint8_t>* out, T value) {
  const size_t offset = out->size();
  out->resize(offset + sizeof(T));
  std::memcpy(out->data() + offset, &value, sizeof(T));
}

// Appends a u64 length and then the text.
void AppendGgufString(std::vector<uint8_t>* out, std::string_view text);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TESTING_GGUF_WRITER_H_
