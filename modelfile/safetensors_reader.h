// The container of safetensors files (github.com/huggingface/safetensors, "Format"): a u64 length, a JSON header of
// that many bytes, then the tensors' bytes without holes.
#ifndef BATON_MODELFILE_SAFETENSORS_READER_H_
#define BATON_MODELFILE_SAFETENSORS_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::modelfile {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // one of the format's names: "F32", "BF16", ...
  std::vector<int64_t> shape;
  const uint8_t* data = nullptr;  // into the bytes that were parsed; not aligned
  size_t bytes = 0;
};

// Returns the tensors in the order of their bytes. INVALID_ARGUMENT, naming `file`, for a wrong header length, damaged
// JSON, a name, type or shape beyond limits.h, and bytes that overlap, leave a hole, pass the end of the file or differ
// in number from what type and shape say. `data` must outlive the views.
absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensors(std::string_view data, std::string_view file);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_SAFETENSORS_READER_H_
