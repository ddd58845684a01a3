#include "cli/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace baton::cli {
namespace {

constexpr size_t kReadBytes = 1 << 16;

}  // namespace

absl::StatusOr<std::string> ReadInputFile(const std::string& flag, const std::string& path, size_t max_bytes) {
  const bool is_stdin = path == "-";
  const std::string where = absl::StrCat(flag, " ", path, ": ");
  const auto unreadable = [&where] {
    if (errno == EISDIR) return absl::InvalidArgumentError(where + "a directory, where a file is needed");
    return absl::NotFoundError(absl::StrCat(where, "cannot read it: ", std::strerror(errno)));
  };
  const auto too_large = [&where, max_bytes] {
    return absl::InvalidArgumentError(absl::StrCat(where, "larger than the ", max_bytes, " bytes that may be read"));
  };
  const int fd = is_stdin ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return unreadable();
  const absl::Cleanup close_file = [fd, is_stdin] {
    if (!is_stdin) close(fd);
  };
  // A large file is refused before any of it is read.
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) > max_bytes) {
    return too_large();
  }
  std::string text;
  std::array<char, kReadBytes> buffer;
  while (true) {
    const ssize_t bytes = read(fd, buffer.data(), buffer.size());
    if (bytes == 0) return text;
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return unreadable();
    if (text.size() + static_cast<size_t>(bytes) > max_bytes) return too_large();
    text.append(buffer.data(), static_cast<size_t>(bytes));
  }
}

}  // namespace baton::cli
