// Files that a flag names.
#ifndef BATON_CLI_INPUT_FILE_H_
#define BATON_CLI_INPUT_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace baton::cli {

// Bounds text that is only tokenized here.
inline constexpr size_t kMaxTextFileBytes = 256u << 20;

// The whole content of a file, a pipe, or of stdin where `path` is "-". Errors name `flag` and the path: NOT_FOUND
// where nothing can be read, INVALID_ARGUMENT for a directory and for more than `max_bytes`.
absl::StatusOr<std::string> ReadInputFile(const std::string& flag, const std::string& path, size_t max_bytes);

}  // namespace baton::cli

#endif  // BATON_CLI_INPUT_FILE_H_
