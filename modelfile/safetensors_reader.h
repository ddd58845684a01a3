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
  std::string dtype;  // "F32", "BF16", ...: one of the format's
  std::vector<int64_t> shape;
  const uint8_t* data = nullptr;  // into the bytes that were parsed; not aligned
  size_t bytes = 0;
};

// In the order of their bytes. INVALID_ARGUMENT, naming `file`, for whatever does not fit: the header's length, its
// JSON, a name, type or shape beyond limits.h, and bytes that overlap, leave a hole, pass the end of the file or are
// not as many as type and shape say. `data` must outlive the views.
absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensors(std::string_view data, std::string_view file);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_SAFETENSORS_READER_H_
