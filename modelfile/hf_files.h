// Where the files of a Hugging Face model come from: a directory, or memory in tests and fuzzers.
#ifndef BATON_MODELFILE_HF_FILES_H_
#define BATON_MODELFILE_HF_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::modelfile {

// The files of one directory, by plain names.
class HfFiles {
 public:
  virtual ~HfFiles() = default;
  // NOT_FOUND when there is no such file. The bytes live as long as this object.
  virtual absl::StatusOr<std::string_view> Open(const std::string& name) = 0;
  // The names that end in ".safetensors", sorted.
  virtual std::vector<std::string> WeightFiles() = 0;
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_FILES_H_
