// A file that a command writes at its end and opens at its beginning, so that a wrong path costs no work.
#ifndef BATON_CLI_OUTPUT_FILE_H_
#define BATON_CLI_OUTPUT_FILE_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::cli {

class OutputFile {
 public:
  // Leaves an existing file as it is. Errors name `flag` and the path.
  static absl::StatusOr<OutputFile> Open(const std::string& flag, const std::string& path);

  // Removes the file if Open has made it and Write was not called.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Replaces the content of the file. Call it once.
  absl::Status Write(std::string_view content);

 private:
  OutputFile(std::string flag, std::string path) : flag_(std::move(flag)), path_(std::move(path)) {}

  absl::Status Error() const;

  const std::string flag_;
  const std::string path_;
  int file_ = -1;
  // Whether the file did not exist and has no content yet.
  bool is_fresh_ = false;
};

}  // namespace baton::cli

#endif  // BATON_CLI_OUTPUT_FILE_H_
