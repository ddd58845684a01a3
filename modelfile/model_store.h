// The model store: a folder in which models have names.
#ifndef BATON_MODELFILE_MODEL_STORE_H_
#define BATON_MODELFILE_MODEL_STORE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::modelfile {

// A listing shows so many models, and a directory of a model is counted up to so many files.
inline constexpr size_t kMaxListedModels = 4096;
inline constexpr size_t kMaxCountedFiles = 65536;

struct StoredModel {
  // What ResolveModel takes for it.
  std::string name;
  // A GGUF file, or a Hugging Face directory.
  std::string path;
};

// Where the store is, whether or not there is such a folder yet. NOT_FOUND when no variable of the environment says it.
absl::StatusOr<std::string> ModelStoreDirectory();

// Whether `name` can be that of a model of the store.
bool IsStoreName(std::string_view name);

// In the order of their names; none where there is no store yet. PERMISSION_DENIED where it cannot be read.
absl::StatusOr<std::vector<StoredModel>> ListModelStore();

// NOT_FOUND when the store has no model of this name.
absl::StatusOr<StoredModel> FindInModelStore(std::string_view name);

// What a file, or all files below a directory, take on the disk. What cannot be read counts as nothing.
int64_t BytesOnDisk(const std::string& path);

// Processes that have the model open keep it. A link is removed, and not what it leads to.
absl::Status RemoveFromModelStore(const StoredModel& model);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_MODEL_STORE_H_
