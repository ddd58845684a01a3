#include "common/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {

absl::StatusOr<std::string> ReadSecretFile(const SecretFile& file) {
  const auto bad = [&file](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(file.Prefix(), what));
  };
  // A pipe without a writer does not hold it up.
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return bad(absl::StrCat(std::strerror(errno), "; name a file that this process may read"));
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat state {};
  if (fstat(fd, &state) != 0) return bad(std::strerror(errno));
  if (!S_ISREG(state.st_mode)) return bad("this is no file");
  if (file.is_private && (state.st_mode & S_IRWXO) != 0) {
    return bad(absl::StrFormat("everybody on this host may use it (mode %04o); run chmod o-rwx %s",
                               static_cast<unsigned>(state.st_mode & 07777), file.path));
  }
  std::string content;
  char buffer[4096];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0) return bad(std::strerror(errno));
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
    if (content.size() > kMaxSecretFileBytes) return bad(absl::StrCat("more than ", kMaxSecretFileBytes, " bytes"));
  }
}

}  // namespace baton
