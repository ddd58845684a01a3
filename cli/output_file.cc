#include "cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace baton::cli {
namespace {

constexpr mode_t kOutputFileMode = 0666;

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& flag, const std::string& path) {
  OutputFile output(flag, path);
  output.file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOutputFileMode);
  output.is_fresh_ = output.file_ >= 0;
  if (output.file_ < 0) output.file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kOutputFileMode);
  if (output.file_ < 0) return output.Error();
  return output;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : flag_(other.flag_),
      path_(other.path_),
      file_(std::exchange(other.file_, -1)),
      is_fresh_(std::exchange(other.is_fresh_, false)) {}

OutputFile::~OutputFile() {
  if (is_fresh_) unlink(path_.c_str());
  if (file_ >= 0) close(file_);
}

absl::Status OutputFile::Write(std::string_view content) {
  is_fresh_ = false;
  struct stat about;
  // Pipes and devices have no size to set.
  if (fstat(file_, &about) == 0 && S_ISREG(about.st_mode) && ftruncate(file_, 0) != 0) return Error();
  while (!content.empty()) {
    const ssize_t written = write(file_, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error();
    content.remove_prefix(static_cast<size_t>(written));
  }
  // Network file systems report a full disk only here.
  return close(std::exchange(file_, -1)) == 0 ? absl::OkStatus() : Error();
}

absl::Status OutputFile::Error() const {
  const int error = errno;
  return absl::InvalidArgumentError(
      absl::StrCat(flag_, ": cannot write ", path_, ": ", std::strerror(error), "; name another file"));
}

}  // namespace baton::cli
