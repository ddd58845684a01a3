// The container of a GGUF v3 file: keys, values and tensors. They are checked against the file's length and limits.h,
// but not against any model. All views point into the bytes that were parsed; the caller keeps these alive.
#ifndef BATON_MODELFILE_GGUF_DOCUMENT_H_
#define BATON_MODELFILE_GGUF_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "modelfile/gguf_format.h"
#include "modelfile/tensor_view.h"

namespace baton::modelfile {

// A scalar, a string, or an array of scalars or strings (nested arrays are refused).
struct GgufValue {
  GgufType type = GgufType::kU8;  // the type of the elements if is_array
  bool is_array = false;
  size_t count = 1;                       // number of elements; 1 unless is_array
  const uint8_t* bytes = nullptr;         // `count` unaligned little-endian values, unless they are strings
  std::vector<std::string_view> strings;  // `count` strings of valid UTF-8
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

// Immutable, so thread-safe, after Parse.
class GgufDocument {
 public:
  // INVALID_ARGUMENT says what is damaged and at which byte. UNIMPLEMENTED is for a version, byte order, tensor type or
  // number of dimensions that Baton does not read.
  static absl::StatusOr<GgufDocument> Parse(const uint8_t* data, size_t bytes);
  // Reads a file also if it has tensors that Baton does not run. It gives stored() instead of tensors().
  static absl::StatusOr<GgufDocument> ParseToDescribe(const uint8_t* data, size_t bytes);

  const std::vector<GgufEntry>& entries() const { return entries_; }
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const std::vector<StoredTensor>& stored() const { return stored_; }
  const GgufValue* Find(std::string_view key) const;
  const TensorView* FindTensor(std::string_view name) const;

  // The typed value of a key. None when the key is absent, INVALID_ARGUMENT when its type or range does not fit.
  absl::StatusOr<std::optional<int64_t>> Integer(std::string_view key) const;
  absl::StatusOr<std::optional<double>> Float(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string_view>> String(std::string_view key) const;
  // Null when absent.
  absl::StatusOr<const std::vector<std::string_view>*> StringArray(std::string_view key) const;

 private:
  friend class GgufParser;

  std::vector<GgufEntry> entries_;
  std::vector<TensorView> tensors_;
  std::vector<StoredTensor> stored_;
  absl::flat_hash_map<absl::string_view, size_t> entry_index_;
  absl::flat_hash_map<std::string, size_t> tensor_index_;
};

// Element `index` of a value of integers. None for other types, and for a u64 that exceeds int64.
std::optional<int64_t> GgufInteger(const GgufValue& value, size_t index);

// The value as one line for people, escaped and shortened.
std::string ShowGgufValue(const GgufValue& value);
// Such as "array of 49152 string" or "u32".
std::string ShowGgufType(const GgufValue& value);
// The shortest decimal number that is this float or double: 1e-05, not 9.999999747378752e-06.
std::string ShowFloat(float value);
std::string ShowFloat(double value);
// Text from a file, made safe for an error message: escaped and shortened.
std::string ShowText(std::string_view text);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_GGUF_DOCUMENT_H_
