// What a model file holds, in the file's own words: also of a file that Baton does not run.
#ifndef BATON_MODELFILE_MODEL_DESCRIPTION_H_
#define BATON_MODELFILE_MODEL_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "modelfile/hf_files.h"
#include "modelfile/tensor_view.h"

namespace baton::modelfile {

// A line about one key, with long texts and arrays shortened.
struct MetadataEntry {
  std::string key;
  std::string type;
  std::string value;
};

// A size that the file states, by the name of the field of ModelConfig that it would become.
struct StatedSize {
  std::string_view name;
  int64_t value = 0;
};

struct ModelDescription {
  std::string_view format;
  // Empty where the file names none.
  std::string architecture;
  // For a directory, the bytes of its files with weights.
  uint64_t file_bytes = 0;
  std::vector<StatedSize> sizes;
  std::vector<MetadataEntry> metadata;
  std::vector<StoredTensor> tensors;
};

// Reads any GGUF v3 file and any Hugging Face directory whose weights are *.safetensors. Checks that the container is
// whole, and nothing that belongs to an architecture. Errors are those of OpenModelFile; UNIMPLEMENTED is left for
// another version or byte order of GGUF.
absl::StatusOr<ModelDescription> DescribeModelFile(const std::string& path);

// The same for bytes and files from anywhere, for tests and fuzzers.
absl::StatusOr<ModelDescription> DescribeGguf(const uint8_t* data, size_t bytes);
absl::StatusOr<ModelDescription> DescribeHf(HfFiles& files);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_MODEL_DESCRIPTION_H_
