#include "modelfile/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

absl::Status ErrnoStatus(std::string_view doing, int error) {
  const std::string message = absl::StrCat("cannot ", ToAbsl(doing), ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat(message, "; name an existing file or a model of the store"));
  }
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(absl::StrCat(message, "; make the file readable"));
  }
  return absl::UnavailableError(absl::StrCat(message, "; check the disk and try again"));
}

}  // namespace

MappedFile::~MappedFile() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

absl::StatusOr<MappedFile> MappedFile::MapDescriptor(int fd) {
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return ErrnoStatus("read the file's size", errno);
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError("is not a regular file; name a file of a model");
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  if (bytes > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", bytes, " bytes, limit ", kMaxFileBytes));
  }
  if (bytes == 0) return MappedFile();
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) return ErrnoStatus("map the file into memory", errno);
  return MappedFile(address, bytes);
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // With O_NONBLOCK, opening a pipe returns at once; the check for a regular file then refuses it.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus("open the model file", errno);
  absl::StatusOr<MappedFile> file = MapDescriptor(fd);
  close(fd);
  return file;
}

}  // namespace baton::modelfile
